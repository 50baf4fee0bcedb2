// SPDX-License-Identifier: Apache-2.0
#include "schedule/list_scheduler.hpp"

#include "schedule/memory_room.hpp"

#include <algorithm>
#include <queue>
#include <tuple>

namespace evener::schedule {

using program::Work;
using program::WorkKind;

namespace {

template <class T>
using LeastFirst = std::priority_queue<T, std::vector<T>, std::greater<>>;

enum class EventKind : std::uint8_t { forward_arrives, backward_arrives, work_ends };

struct Event {
    double seconds = 0;
    std::int32_t cell = 0;
    EventKind event = EventKind::work_ends;
    WorkKind work = WorkKind::forward; ///< that ends

    friend bool operator>(Event const& a, Event const& b) {
        return std::tie(a.seconds, a.cell, a.work, a.event) >
               std::tie(b.seconds, b.cell, b.work, b.event);
    }
};

/// What one rank has ready of one chunk. Lower cells of a lane are lower microbatches.
struct Lane {
    std::int64_t chunk = 0;
    LeastFirst<std::int32_t> forwards;
    LeastFirst<std::int32_t> backwards;
};

struct RankState {
    std::vector<Lane> lanes;
    std::queue<std::int32_t> weights;
    LeastFirst<double> arrivals; ///< seconds at which messages under way arrive
    std::int64_t in_flight = 0;  ///< cells between forward and the end of the input half
    bool busy = false;
    bool forward_last = false;
};

struct Pick {
    std::int32_t cell = -1;
    WorkKind kind = WorkKind::forward;
};

class ListScheduler {
  public:
    ListScheduler(WorkGraph const& graph, ListRules const& rules)
        : graph_{graph}, rules_{rules}, room_{graph},
          ranks_(static_cast<std::size_t>(graph.rank_count)),
          wires_(static_cast<std::size_t>(graph.wire_count)), missing_{{}, {}} {
        for (int side = 0; side < 2; ++side) {
            missing_[side].resize(graph.cells.size());
            ready_[side].assign(graph.cells.size(), 0.0);
        }
        lane_of_.resize(graph.cells.size());
        for (std::size_t i = 0; i < graph.cells.size(); ++i)
            add_cell(i);
        schedule_.ranks.resize(ranks_.size());
    }

    program::Schedule run() {
        for (std::size_t r = 0; r < ranks_.size(); ++r)
            start_next(r, 0);
        std::vector<std::size_t> touched;
        while (!events_.empty()) {
            double const now = events_.top().seconds;
            touched.clear();
            while (!events_.empty() && events_.top().seconds == now) {
                Event const event = events_.top();
                events_.pop();
                touched.push_back(cell(event.cell).rank.index());
                handle(event);
            }
            std::sort(touched.begin(), touched.end());
            touched.erase(std::unique(touched.begin(), touched.end()), touched.end());
            for (std::size_t const r : touched)
                start_next(r, now);
        }
        return std::move(schedule_);
    }

  private:
    Cell const& cell(std::int32_t index) const {
        return graph_.cells[static_cast<std::size_t>(index)];
    }

    Lane& lane(std::int32_t index) {
        return ranks_[cell(index).rank.index()].lanes[lane_of_[static_cast<std::size_t>(index)]];
    }

    void add_cell(std::size_t i) {
        Cell const& added = graph_.cells[i];
        std::vector<Lane>& lanes = ranks_[added.rank.index()].lanes;
        auto const found = std::find_if(lanes.begin(), lanes.end(), [&](Lane const& lane) {
            return lane.chunk == added.chunk.value;
        });
        lane_of_[i] = static_cast<std::size_t>(found - lanes.begin());
        if (found == lanes.end())
            lanes.push_back({added.chunk.value, {}, {}});
        missing_[0][i] = static_cast<std::int32_t>(std::ssize(added.forward_inputs));
        missing_[1][i] = static_cast<std::int32_t>(std::ssize(added.backward_inputs)) + 1;
        if (added.forward_inputs.empty())
            lanes[lane_of_[i]].forwards.push(static_cast<std::int32_t>(i));
    }

    void handle(Event const& event) {
        RankState& rank = ranks_[cell(event.cell).rank.index()];
        switch (event.event) {
        case EventKind::forward_arrives:
            lane(event.cell).forwards.push(event.cell);
            return;
        case EventKind::backward_arrives:
            lane(event.cell).backwards.push(event.cell);
            return;
        case EventKind::work_ends:
            break;
        }
        rank.busy = false;
        room_.end(event.cell, event.work);
        if (event.work == WorkKind::forward) {
            send(graph_.forward_outputs(event.cell), 0, event.seconds);
            arrive(event.cell, 1, event.seconds);
        } else if (event.work != WorkKind::backward_weight) {
            --rank.in_flight;
            send(graph_.backward_outputs(event.cell), 1, event.seconds);
            if (event.work == WorkKind::backward_input)
                rank.weights.push(event.cell);
        }
    }

    void send(std::span<Departure const> outputs, std::size_t side, double now) {
        for (Departure const& departure : outputs) {
            double arrival = now;
            if (departure.arrival.wire >= 0) {
                double& free = wires_[static_cast<std::size_t>(departure.arrival.wire)];
                free = std::max(free, now) + departure.arrival.seconds;
                arrival = free + departure.arrival.latency_seconds;
            }
            arrive(departure.cell, side, arrival);
        }
    }

    /// One more of what the cell's forward (side 0) or backward (side 1) waits for is known.
    void arrive(std::int32_t index, std::size_t side, double seconds) {
        auto const i = static_cast<std::size_t>(index);
        ready_[side][i] = std::max(ready_[side][i], seconds);
        if (--missing_[side][i] > 0)
            return;
        events_.push({ready_[side][i], index,
                      side == 0 ? EventKind::forward_arrives : EventKind::backward_arrives,
                      WorkKind::forward});
        ranks_[cell(index).rank.index()].arrivals.push(ready_[side][i]);
    }

    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;

    /// Lower = sooner; `place` is the chunk's in the direction of the pass.
    Key key(std::int64_t place, std::int64_t microbatch) const {
        if (rules_.chunks == ListRules::Chunks::deep)
            return {0, -place, microbatch};
        return {microbatch / rules_.run, place, microbatch};
    }

    std::int32_t best_backward(RankState const& rank) const {
        std::int32_t best = -1;
        Key best_key;
        for (Lane const& lane : rank.lanes)
            if (!lane.backwards.empty()) {
                std::int32_t const candidate = lane.backwards.top();
                Key const own = key(-lane.chunk, cell(candidate).microbatch.value);
                if (best < 0 || own < best_key)
                    std::tie(best, best_key) = std::tie(candidate, own);
            }
        return best;
    }

    bool may_start_forward(std::size_t r, std::int32_t index) const {
        return (rules_.windows.empty() || ranks_[r].in_flight < rules_.windows[r] ||
                room_.is_oldest(index)) &&
               room_.fits_forward(index, rules_.reserved);
    }

    std::int32_t best_forward(std::size_t r) const {
        std::int32_t best = -1;
        Key best_key;
        for (Lane const& lane : ranks_[r].lanes)
            if (!lane.forwards.empty()) {
                std::int32_t const candidate = lane.forwards.top();
                Key const own = key(lane.chunk, cell(candidate).microbatch.value);
                if ((best < 0 || own < best_key) && may_start_forward(r, candidate))
                    std::tie(best, best_key) = std::tie(candidate, own);
            }
        return best;
    }

    Pick weight(RankState const& rank) const {
        return rank.weights.empty() ? Pick{}
                                    : Pick{rank.weights.front(), WorkKind::backward_weight};
    }

    Pick backward(RankState const& rank, std::int32_t index) const {
        if (rules_.weights == ListRules::Weights::fused)
            return {index, WorkKind::backward};
        if (room_.fits_input_half(index))
            return {index, WorkKind::backward_input};
        return rank.weights.empty() ? Pick{index, WorkKind::backward} : weight(rank);
    }

    Pick pick(std::size_t r, double now) {
        RankState& rank = ranks_[r];
        std::int32_t const backward_cell = best_backward(rank);
        bool const weights_first = rules_.weights == ListRules::Weights::early;
        if (backward_cell < 0 && weights_first && !rank.weights.empty())
            return weight(rank);
        std::int32_t const forward_cell = best_forward(r);
        if (backward_cell >= 0) {
            bool const prefer_forward =
                rules_.choice == ListRules::Choice::forward ||
                (rules_.choice == ListRules::Choice::turns && !rank.forward_last);
            if (forward_cell < 0 || !prefer_forward)
                return backward(rank, backward_cell);
        }
        if (forward_cell >= 0)
            return {forward_cell, WorkKind::forward};
        if (rank.weights.empty())
            return {};
        while (!rank.arrivals.empty() && rank.arrivals.top() <= now)
            rank.arrivals.pop();
        double const wait = rules_.patience * cell(rank.weights.front()).seconds.backward_weight;
        if (!rank.arrivals.empty() && rank.arrivals.top() < now + wait)
            return {};
        return weight(rank);
    }

    void start_next(std::size_t r, double now) {
        RankState& rank = ranks_[r];
        if (rank.busy)
            return;
        Pick const next = pick(r, now);
        if (next.cell < 0)
            return;
        Cell const& chosen = cell(next.cell);
        switch (next.kind) {
        case WorkKind::forward:
            lane(next.cell).forwards.pop();
            ++rank.in_flight;
            rank.forward_last = true;
            break;
        case WorkKind::backward:
        case WorkKind::backward_input:
            lane(next.cell).backwards.pop();
            rank.forward_last = false;
            break;
        case WorkKind::backward_weight:
            rank.weights.pop();
            break;
        }
        room_.start(next.cell, next.kind);
        rank.busy = true;
        schedule_.ranks[r].push_back({next.kind, chosen.chunk, chosen.microbatch});
        events_.push(
            {now + chosen.seconds.of(next.kind), next.cell, EventKind::work_ends, next.kind});
    }

    WorkGraph const& graph_;
    ListRules const& rules_;
    MemoryRoom room_;
    std::vector<RankState> ranks_;
    std::vector<double> wires_;            ///< when each gets free
    std::vector<std::int32_t> missing_[2]; ///< [forward, backward][cell] inputs not yet known
    std::vector<double> ready_[2];         ///< likewise: when the last known one arrives
    std::vector<std::size_t> lane_of_;     ///< by cell
    LeastFirst<Event> events_;
    program::Schedule schedule_;
};

} // namespace

program::Schedule list_schedule(WorkGraph const& graph, ListRules const& rules) {
    EVENER_EXPECT(rules.run > 0 && rules.reserved > 0);
    EVENER_EXPECT(rules.windows.empty() || std::ssize(rules.windows) == graph.rank_count);
    program::Schedule schedule = ListScheduler{graph, rules}.run();
    schedule.name = "greedy";
    return schedule;
}

} // namespace evener::schedule
