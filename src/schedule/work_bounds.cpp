// SPDX-License-Identifier: Apache-2.0
#include "schedule/work_bounds.hpp"

#include "schedule/memory_room.hpp"

#include <algorithm>

namespace evener::schedule {

namespace {

std::size_t at(std::int32_t index) {
    return static_cast<std::size_t>(index);
}

void raise(double& value, double least) {
    value = std::max(value, least);
}

} // namespace

WorkBounds::WorkBounds(WorkGraph const& graph, WorkLanes const& lanes, bool in_order)
    : graph_{graph}, lanes_{lanes}, in_order_{in_order} {
    make_windows();
    make_tails();
}

Frontier WorkBounds::nothing_decided() const {
    Frontier frontier;
    frontier.lanes.resize(lanes_.lanes.size());
    frontier.free.resize(at(static_cast<std::int32_t>(graph_.rank_count)));
    frontier.ports.resize(lanes_.ports.size());
    frontier.forward_ready.resize(graph_.cells.size());
    frontier.backward_ready.resize(graph_.cells.size());
    return frontier;
}

void WorkBounds::make_windows() {
    freed_before_.assign(graph_.cells.size(), 0);
    unlocks_.assign(graph_.cells.size(), 0);
    for (WorkLanes::Lane const& lane : lanes_.lanes) {
        double const limit = MemoryRoom::with_margin(graph_.memory_limits[at(lane.rank)]);
        bool const alone = in_order_ && lanes_.lanes_of_ranks[at(lane.rank)].size() == 1;
        double kept = 0;
        std::size_t freed = 0;
        for (std::size_t k = 0; k < lane.cells.size(); ++k) {
            kept += graph_.cells[at(lane.cells[k])].kept_bytes;
            while (alone && kept > limit && freed < k) {
                kept -= graph_.cells[at(lane.cells[freed])].kept_bytes;
                unlocks_[at(lane.cells[freed++])] = static_cast<std::int32_t>(k);
            }
            freed_before_[at(lane.cells[k])] = static_cast<std::int32_t>(freed);
        }
        for (; freed < lane.cells.size(); ++freed)
            unlocks_[at(lane.cells[freed])] = static_cast<std::int32_t>(lane.cells.size());
    }
}

void WorkBounds::reset(Heads& heads) const {
    std::size_t const cells = graph_.cells.size();
    heads.forward.resize(cells);
    heads.input.resize(cells);
    heads.weight.resize(cells);
    heads.backward_sums.resize(cells);
    heads.streams.assign(lanes_.streams.size(), 0);
    for (std::vector<double>* const sums :
         {&heads.forward_sums, &heads.input_sums, &heads.weight_sums, &heads.kept_sums})
        sums->assign(lanes_.lanes.size(), 0);
}

/// Latest arrival of what is sent by undecided work.
double WorkBounds::latest_arrival(Frontier const& frontier, Heads& heads, std::int32_t cell,
                                  bool forward) const {
    double latest = 0;
    auto const& inputs = forward ? lanes_.forward_inputs : lanes_.backward_inputs;
    for (LaneInput const& input : inputs[at(cell)]) {
        Frontier::Counts const& counts = frontier.lanes[at(lanes_.lane_of[at(input.cell)])];
        std::int32_t const place = lanes_.place_of[at(input.cell)];
        if (place < (forward ? counts.forwards : counts.inputs))
            continue;
        double arrival =
            forward ? heads.forward[at(input.cell)] + graph_.cells[at(input.cell)].seconds.forward
                    : heads.input[at(input.cell)] + lanes_.input_seconds[at(input.cell)];
        if (input.stream >= 0) {
            double alone = 0;
            double& stream = in_order_ ? heads.streams[at(input.stream)] : alone;
            raise(stream, frontier.ports[at(lanes_.streams[at(input.stream)].port)]);
            stream = std::max(stream, arrival) + input.seconds;
            arrival = stream + input.latency_seconds;
        }
        raise(latest, arrival);
    }
    return latest;
}

/// Earliest moment at which the cell's memory is free again.
double WorkBounds::release_head(Frontier const& frontier, Heads const& heads,
                                std::int32_t cell) const {
    if (lanes_.place_of[at(cell)] < frontier.lanes[at(lanes_.lane_of[at(cell)])].weights)
        return 0;
    return heads.weight[at(cell)] + lanes_.weight_seconds[at(cell)];
}

/// Earliest moment at which there is room for the cell on a rank with several lanes: it and all
/// forwards that come before it must fit beside what has not been freed.
double WorkBounds::memory_head(Frontier const& frontier, Heads& heads, std::int32_t cell) const {
    Cell const& own = graph_.cells[at(cell)];
    double needed = -MemoryRoom::with_margin(graph_.memory_limits[own.rank.index()]);
    auto const& lanes = lanes_.lanes_of_ranks[own.rank.index()];
    for (std::int32_t const lane : lanes)
        if (lanes_.lanes[at(lane)].chunk <= own.chunk.value)
            needed += heads.kept_sums[at(lane)];
    if (needed <= 0)
        return 0;
    heads.releases.clear();
    for (std::int32_t const lane : lanes)
        if (lanes_.lanes[at(lane)].chunk <= own.chunk.value)
            for (std::int32_t const other : lanes_.lanes[at(lane)].cells) {
                if (graph_.cells[at(other)].microbatch >= own.microbatch)
                    break;
                heads.releases.emplace_back(release_head(frontier, heads, other),
                                            graph_.cells[at(other)].kept_bytes);
            }
    std::sort(heads.releases.begin(), heads.releases.end());
    for (auto const& [seconds, bytes] : heads.releases)
        if ((needed -= bytes) <= 0)
            return seconds;
    return no_memory_limit; // never
}

void WorkBounds::set_forward(Frontier const& frontier, Heads& heads, std::int32_t cell) const {
    Cell const& own = graph_.cells[at(cell)];
    std::size_t const lane = at(lanes_.lane_of[at(cell)]);
    std::vector<std::int32_t> const& cells = lanes_.lanes[lane].cells;
    std::int32_t const place = lanes_.place_of[at(cell)];
    heads.kept_sums[lane] += own.kept_bytes;
    if (place < frontier.lanes[lane].forwards)
        return;

    double const free = frontier.free[own.rank.index()];
    double head =
        std::max(frontier.forward_ready[at(cell)], latest_arrival(frontier, heads, cell, true));
    if (in_order_ && place > frontier.lanes[lane].forwards) {
        std::int32_t const before = cells[at(place) - 1];
        raise(head, heads.forward[at(before)] + graph_.cells[at(before)].seconds.forward);
    }
    double work = 0; // that the rank does before
    auto const& lanes = lanes_.lanes_of_ranks[own.rank.index()];
    for (std::int32_t const other : lanes)
        if (lanes_.lanes[at(other)].chunk <= own.chunk.value)
            work += heads.forward_sums[at(other)];
    if (lanes.size() > 1) {
        if (in_order_ && graph_.memory_limits[own.rank.index()] != no_memory_limit)
            raise(head, memory_head(frontier, heads, cell));
    } else if (std::int32_t const freed = freed_before_[at(cell)]; freed > 0) {
        std::int32_t const last = cells[at(freed) - 1];
        raise(head, release_head(frontier, heads, last));
        work += heads.backward_sums[at(last)];
    }
    heads.forward[at(cell)] = std::max(head, free + work);
    if (in_order_)
        heads.forward_sums[lane] += own.seconds.forward;
}

void WorkBounds::set_backward(Frontier const& frontier, Heads& heads, std::int32_t cell) const {
    Cell const& own = graph_.cells[at(cell)];
    std::size_t const lane = at(lanes_.lane_of[at(cell)]);
    Frontier::Counts const& counts = frontier.lanes[lane];
    std::int32_t const place = lanes_.place_of[at(cell)];
    double const free = frontier.free[own.rank.index()];
    auto const before = [&] { return lanes_.lanes[lane].cells[at(place) - 1]; };
    double work = 0; // that the rank does before
    for (std::int32_t const other : lanes_.lanes_of_ranks[own.rank.index()]) {
        work += heads.forward_sums[at(other)];
        if (lanes_.lanes[at(other)].chunk >= own.chunk.value)
            work += heads.input_sums[at(other)];
    }
    double weight_head = free;
    if (place >= counts.inputs) {
        double head = std::max(frontier.backward_ready[at(cell)],
                               latest_arrival(frontier, heads, cell, false));
        if (place >= counts.forwards)
            raise(head, heads.forward[at(cell)] + own.seconds.forward);
        if (in_order_ && place > counts.inputs)
            raise(head, heads.input[at(before())] + lanes_.input_seconds[at(before())]);
        heads.input[at(cell)] = std::max(head, free + work);
        weight_head = heads.input[at(cell)] + lanes_.input_seconds[at(cell)];
        if (in_order_)
            heads.input_sums[lane] += lanes_.input_seconds[at(cell)];
        work += lanes_.input_seconds[at(cell)];
    } else {
        work = 0;
    }
    if (place >= counts.weights) {
        if (in_order_ && place > counts.weights)
            raise(weight_head, heads.weight[at(before())] + lanes_.weight_seconds[at(before())]);
        heads.weight[at(cell)] = std::max(weight_head, free + work + heads.weight_sums[lane]);
        if (in_order_)
            heads.weight_sums[lane] += lanes_.weight_seconds[at(cell)];
    }
    heads.backward_sums[at(cell)] = heads.input_sums[lane] + heads.weight_sums[lane];
}

double WorkBounds::rank_bound(Frontier const& frontier, Heads& heads, std::size_t rank) const {
    heads.jobs.clear();
    for (std::int32_t const lane : lanes_.lanes_of_ranks[rank]) {
        Frontier::Counts const& counts = frontier.lanes[at(lane)];
        std::vector<std::int32_t> const& cells = lanes_.lanes[at(lane)].cells;
        for (std::size_t k = at(counts.weights); k < cells.size(); ++k) {
            std::size_t const i = at(cells[k]);
            if (k >= at(counts.forwards))
                heads.jobs.push_back(
                    {heads.forward[i], graph_.cells[i].seconds.forward, forward_tails_[i]});
            if (k >= at(counts.inputs))
                heads.jobs.push_back({heads.input[i], lanes_.input_seconds[i], input_tails_[i]});
            heads.jobs.push_back({heads.weight[i], lanes_.weight_seconds[i], weight_tails_[i]});
        }
    }
    return std::max(frontier.free[rank], preemptive_bound(heads.jobs));
}

double WorkBounds::bound(Frontier const& frontier, Heads& heads) const {
    reset(heads);
    for (std::vector<std::int32_t> const& cells : lanes_.microbatches) {
        for (std::int32_t const cell : cells)
            set_forward(frontier, heads, cell);
        for (std::size_t i = cells.size(); i-- > 0;)
            set_backward(frontier, heads, cells[i]);
    }
    double least = 0;
    heads.bound_sum = 0;
    for (std::size_t r = 0; r < frontier.free.size(); ++r) {
        double const own = rank_bound(frontier, heads, r);
        heads.bound_sum += own;
        raise(least, own);
    }
    return least;
}

double WorkBounds::wire_bound(Heads& heads) const {
    std::vector<std::vector<Job>> wires(at(static_cast<std::int32_t>(graph_.wire_count)));
    for (std::size_t i = 0; i < graph_.cells.size(); ++i) {
        for (Arrival const& input : graph_.cells[i].forward_inputs)
            if (input.wire >= 0)
                wires[at(input.wire)].push_back(
                    {heads.forward[at(input.cell)] + graph_.cells[at(input.cell)].seconds.forward,
                     input.seconds,
                     input.latency_seconds + graph_.cells[i].seconds.forward + forward_tails_[i]});
        for (Arrival const& input : graph_.cells[i].backward_inputs)
            if (input.wire >= 0)
                wires[at(input.wire)].push_back(
                    {heads.input[at(input.cell)] + lanes_.input_seconds[at(input.cell)],
                     input.seconds,
                     input.latency_seconds + lanes_.input_seconds[i] + input_tails_[i]});
    }
    double least = 0;
    for (std::vector<Job>& jobs : wires)
        raise(least, preemptive_bound(jobs));
    return least;
}

double preemptive_bound(std::vector<Job>& jobs) {
    // Always the job with the longest tail of those that have begun to be available.
    auto const later = [](Job const& a, Job const& b) { return a.head < b.head; };
    auto const shorter = [](Job const& a, Job const& b) { return a.tail < b.tail; };
    std::sort(jobs.begin(), jobs.end(), later);
    std::vector<Job> open;
    double now = 0;
    double least = 0;
    std::size_t next = 0;
    while (next < jobs.size() || !open.empty()) {
        if (open.empty())
            raise(now, jobs[next].head);
        for (; next < jobs.size() && jobs[next].head <= now; ++next) {
            open.push_back(jobs[next]);
            std::push_heap(open.begin(), open.end(), shorter);
        }
        Job& job = open.front();
        double const pause = next < jobs.size() ? jobs[next].head : now + job.seconds;
        if (now + job.seconds <= pause) {
            now += job.seconds;
            raise(least, now + job.tail);
            std::pop_heap(open.begin(), open.end(), shorter);
            open.pop_back();
        } else {
            job.seconds -= pause - now;
            now = pause;
        }
    }
    return least;
}

double lower_bound(WorkGraph const& graph) {
    WorkLanes const lanes{graph};
    WorkBounds const bounds{graph, lanes, lanes.microbatches_alike(graph)};
    Heads heads;
    double const least = bounds.bound(bounds.nothing_decided(), heads);
    return std::max(least, bounds.wire_bound(heads));
}

} // namespace evener::schedule
