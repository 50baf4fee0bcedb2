// SPDX-License-Identifier: Apache-2.0
#include "schedule/work_lanes.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace evener::schedule {

namespace {

/// Numbers for keys in the order in which they first occur.
template <class Key>
class Numbers {
  public:
    /// The key's number, and whether it is new.
    std::pair<std::int32_t, bool> of(Key const& key) {
        auto const [found, added] =
            numbers_.try_emplace(key, static_cast<std::int32_t>(numbers_.size()));
        return {found->second, added};
    }

  private:
    std::map<Key, std::int32_t> numbers_;
};

class Inputs {
  public:
    Inputs(WorkGraph const& graph, WorkLanes& lanes) : graph_{graph}, lanes_{lanes} {}

    std::vector<LaneInput> make(std::vector<Arrival> const& arrivals, bool forward) {
        std::vector<LaneInput> inputs;
        for (Arrival const& arrival : arrivals) {
            LaneInput& input = inputs.emplace_back();
            input = {arrival.cell, -1, arrival.seconds, arrival.latency_seconds};
            if (arrival.wire >= 0)
                input.stream = stream(arrival, forward);
        }
        return inputs;
    }

  private:
    std::int32_t stream(Arrival const& arrival, bool forward) {
        auto const sender = static_cast<std::size_t>(arrival.cell);
        std::int32_t const lane = lanes_.lane_of[sender];
        auto const [stream, added] = streams_.of({lane, arrival.wire, forward});
        if (added) {
            std::int32_t const rank = graph_.cells[sender].rank.value;
            auto const [port, port_added] = ports_.of({rank, arrival.wire});
            if (port_added)
                lanes_.ports.push_back({rank, arrival.wire});
            lanes_.streams.push_back({port, lane, forward});
        }
        return stream;
    }

    WorkGraph const& graph_;
    WorkLanes& lanes_;
    Numbers<std::tuple<std::int32_t, std::int32_t, bool>> streams_;
    Numbers<std::pair<std::int32_t, std::int32_t>> ports_;
};

} // namespace

WorkLanes::WorkLanes(WorkGraph const& graph)
    : lanes_of_ranks(static_cast<std::size_t>(graph.rank_count)) {
    // Cells stand in the order of chunks, then microbatches.
    Numbers<std::pair<std::int32_t, std::int32_t>> numbers;
    for (std::size_t i = 0; i < graph.cells.size(); ++i) {
        Cell const& cell = graph.cells[i];
        auto const index = static_cast<std::int32_t>(i);
        auto const [lane, added] = numbers.of({cell.rank.value, cell.chunk.value});
        if (added) {
            lanes.push_back({cell.rank.value, cell.chunk.value, {}});
            lanes_of_ranks[cell.rank.index()].push_back(lane);
        }
        std::vector<std::int32_t>& own = lanes[static_cast<std::size_t>(lane)].cells;
        lane_of.push_back(lane);
        place_of.push_back(static_cast<std::int32_t>(own.size()));
        own.push_back(index);
        if (microbatches.size() <= cell.microbatch.index())
            microbatches.resize(cell.microbatch.index() + 1);
        microbatches[cell.microbatch.index()].push_back(index);
        program::ChunkSeconds const& seconds = cell.seconds;
        input_seconds.push_back(std::min(seconds.backward_input, seconds.backward));
        weight_seconds.push_back(
            std::min(seconds.backward_weight, seconds.backward - input_seconds.back()));
    }
    Inputs inputs{graph, *this};
    for (Cell const& cell : graph.cells) {
        forward_inputs.push_back(inputs.make(cell.forward_inputs, true));
        backward_inputs.push_back(inputs.make(cell.backward_inputs, false));
    }
}

bool WorkLanes::microbatches_alike(WorkGraph const& graph) const {
    auto const alike = [&](std::vector<LaneInput> const& a, std::vector<LaneInput> const& b) {
        return std::ranges::equal(a, b, [&](LaneInput const& x, LaneInput const& y) {
            return lane_of[static_cast<std::size_t>(x.cell)] ==
                       lane_of[static_cast<std::size_t>(y.cell)] &&
                   x.stream == y.stream && x.seconds == y.seconds &&
                   x.latency_seconds == y.latency_seconds;
        });
    };
    for (Lane const& lane : lanes) {
        if (lane.cells.size() != microbatches.size())
            return false;
        auto const first = static_cast<std::size_t>(lane.cells.front());
        Cell const& a = graph.cells[first];
        for (std::int32_t const cell : lane.cells) {
            auto const i = static_cast<std::size_t>(cell);
            Cell const& b = graph.cells[i];
            if (a.seconds != b.seconds || a.kept_bytes != b.kept_bytes ||
                a.kept_for_weights_bytes != b.kept_for_weights_bytes ||
                !alike(forward_inputs[first], forward_inputs[i]) ||
                !alike(backward_inputs[first], backward_inputs[i]))
                return false;
        }
    }
    return true;
}

} // namespace evener::schedule
