// SPDX-License-Identifier: Apache-2.0
#include "schedule/exact_branching.hpp"

#include "schedule/memory_room.hpp"

#include <algorithm>

namespace evener::schedule {

using program::WorkKind;
using Counts = Frontier::Counts;

namespace {

std::size_t at(std::int32_t index) {
    return static_cast<std::size_t>(index);
}

} // namespace

ExactBranching::ExactBranching(WorkGraph const& graph, WorkLanes const& lanes)
    : graph_{graph}, lanes_{lanes}, bounds_{graph, lanes, true},
      forward_outputs_(graph.cells.size()), backward_outputs_(graph.cells.size()),
      one_stream_(lanes.ports.size(), true) {
    for (std::size_t i = 0; i < graph.cells.size(); ++i)
        for (bool const forward : {true, false})
            for (LaneInput const& input :
                 (forward ? lanes.forward_inputs : lanes.backward_inputs)[i])
                (forward ? forward_outputs_ : backward_outputs_)[at(input.cell)].push_back(
                    {static_cast<std::int32_t>(i),
                     input.stream < 0 ? -1 : lanes.streams[at(input.stream)].port, input.seconds,
                     input.latency_seconds});
    for (std::size_t i = 0; i < lanes.streams.size(); ++i)
        for (std::size_t j = 0; j < i; ++j)
            if (lanes.streams[i].port == lanes.streams[j].port)
                one_stream_[at(lanes.streams[i].port)] = false;
    std::vector<double> bytes(graph.memory_limits.size());
    for (Cell const& cell : graph.cells)
        bytes[cell.rank.index()] += cell.kept_bytes + cell.kept_for_weights_bytes;
    for (std::size_t r = 0; r < bytes.size(); ++r)
        memory_free_.push_back(bytes[r] <= MemoryRoom::with_margin(graph.memory_limits[r]));
    for (WorkLanes::Lane const& lane : lanes.lanes)
        alike_.push_back(std::all_of(lane.cells.begin(), lane.cells.end(), [&](auto cell) {
            Cell const& own = graph.cells[at(cell)];
            Cell const& other = graph.cells[at(lane.cells.front())];
            return own.seconds == other.seconds && own.kept_bytes == other.kept_bytes &&
                   own.kept_for_weights_bytes == other.kept_for_weights_bytes;
        }));
    for (WorkLanes::Lane const& lane : lanes.lanes)
        may_fuse_.push_back(std::any_of(lane.cells.begin(), lane.cells.end(), [&](auto cell) {
            Cell const& own = graph.cells[at(cell)];
            return own.seconds.backward <
                       own.seconds.backward_input + own.seconds.backward_weight ||
                   (own.kept_for_weights_bytes > 0 && !memory_free_[at(lane.rank)]);
        }));
    least_ = bounds_.bound(bounds_.nothing_decided(), heads_);
}

bool ExactBranching::any_decided(Frontier const& frontier, std::vector<LaneInput> const& inputs,
                                 std::int32_t Counts::*counted) const {
    return std::any_of(inputs.begin(), inputs.end(), [&](LaneInput const& input) {
        return lanes_.place_of[at(input.cell)] <
               frontier.lanes[at(lanes_.lane_of[at(input.cell)])].*counted;
    });
}

bool ExactBranching::all_decided(Frontier const& frontier, std::vector<LaneInput> const& inputs,
                                 std::int32_t Counts::*counted) const {
    return std::all_of(inputs.begin(), inputs.end(), [&](LaneInput const& input) {
        return lanes_.place_of[at(input.cell)] <
               frontier.lanes[at(lanes_.lane_of[at(input.cell)])].*counted;
    });
}

/// Calls with the frontier's vector and the index of each arrival that is known (in part) of work
/// that is not decided.
template <class Call>
void ExactBranching::for_each_pending(Frontier const& frontier, Call const& call) const {
    for (std::size_t l = 0; l < lanes_.lanes.size(); ++l) {
        std::vector<std::int32_t> const& cells = lanes_.lanes[l].cells;
        Counts const& counts = frontier.lanes[l];
        for (std::size_t k = at(counts.forwards); k < cells.size(); ++k)
            if (any_decided(frontier, lanes_.forward_inputs[at(cells[k])], &Counts::forwards))
                call(&Frontier::forward_ready, at(cells[k]));
        for (std::size_t k = at(counts.inputs); k < cells.size(); ++k)
            if (k < at(counts.forwards) ||
                any_decided(frontier, lanes_.backward_inputs[at(cells[k])], &Counts::inputs))
                call(&Frontier::backward_ready, at(cells[k]));
    }
}

void ExactBranching::write_values(Frontier const& frontier, std::vector<double>& values) const {
    values.assign(frontier.free.begin(), frontier.free.end());
    values.insert(values.end(), frontier.ports.begin(), frontier.ports.end());
    for_each_pending(frontier, [&](std::vector<double> Frontier::*ready, std::size_t cell) {
        values.push_back((frontier.*ready)[cell]);
    });
}

void ExactBranching::read_values(Frontier& frontier, double const* values) const {
    for (double& free : frontier.free)
        free = *values++;
    for (double& port : frontier.ports)
        port = *values++;
    std::fill(frontier.forward_ready.begin(), frontier.forward_ready.end(), 0.0);
    std::fill(frontier.backward_ready.begin(), frontier.backward_ready.end(), 0.0);
    for_each_pending(frontier, [&](std::vector<double> Frontier::*ready, std::size_t cell) {
        (frontier.*ready)[cell] = *values++;
    });
}

double ExactBranching::held_bytes(Frontier const& frontier, std::size_t rank) const {
    double held = 0;
    for (std::int32_t const lane : lanes_.lanes_of_ranks[rank]) {
        Counts const& counts = frontier.lanes[at(lane)];
        for (std::int32_t k = counts.weights; k < counts.forwards; ++k) {
            Cell const& cell = graph_.cells[at(lanes_.lanes[at(lane)].cells[at(k)])];
            held += cell.kept_bytes + (k < counts.inputs ? cell.kept_for_weights_bytes : 0);
        }
    }
    return held;
}

/// What may come next of a lane, in time and memory.
void ExactBranching::add_options(Frontier const& frontier, std::int32_t index) {
    WorkLanes::Lane const& lane = lanes_.lanes[at(index)];
    Counts const& counts = frontier.lanes[at(index)];
    auto const size = static_cast<std::int32_t>(lane.cells.size());
    double const free = frontier.free[at(lane.rank)];
    double const room = MemoryRoom::with_margin(graph_.memory_limits[at(lane.rank)]) -
                        held_bytes(frontier, at(lane.rank));
    auto const add = [&](WorkKind kind, std::int32_t cell, double ready) {
        double const start = std::max(free, ready);
        options_.push_back(
            {{index, kind}, cell, start, start + graph_.cells[at(cell)].seconds.of(kind)});
    };
    if (counts.forwards < size) {
        std::int32_t const cell = lane.cells[at(counts.forwards)];
        if (graph_.cells[at(cell)].kept_bytes <= room &&
            all_decided(frontier, lanes_.forward_inputs[at(cell)], &Counts::forwards))
            add(WorkKind::forward, cell, frontier.forward_ready[at(cell)]);
    }
    if (counts.inputs < counts.forwards) {
        std::int32_t const cell = lane.cells[at(counts.inputs)];
        if (all_decided(frontier, lanes_.backward_inputs[at(cell)], &Counts::inputs)) {
            if (graph_.cells[at(cell)].kept_for_weights_bytes <= room)
                add(WorkKind::backward_input, cell, frontier.backward_ready[at(cell)]);
            if (may_fuse_[at(index)] && (alike_[at(index)] || counts.weights == counts.inputs))
                add(WorkKind::backward, cell, frontier.backward_ready[at(cell)]);
        }
    }
    if (counts.weights < counts.inputs)
        add(WorkKind::backward_weight, lane.cells[at(counts.weights)], free);
}

/// Whether the work may be put into any gap that is long enough without harm.
bool ExactBranching::may_insert(Option const& option) const {
    std::size_t const lane = at(option.decision.lane);
    std::size_t const rank = at(lanes_.lanes[lane].rank);
    WorkKind const kind = option.decision.kind;
    if (kind == WorkKind::backward_weight)
        return true;
    for (Output const& output :
         (kind == WorkKind::forward ? forward_outputs_ : backward_outputs_)[at(option.cell)])
        if (output.port >= 0 && output.seconds > 0 && !one_stream_[at(output.port)])
            return false;
    if (memory_free_[rank] || kind == WorkKind::backward)
        return true;
    // Between its new and its old place nothing else may come to need the memory.
    if (kind == WorkKind::forward && lanes_.lanes_of_ranks[rank].size() > 1)
        return false;
    for (std::int32_t const other : lanes_.lanes_of_ranks[rank])
        for (std::int32_t const cell : lanes_.lanes[at(other)].cells)
            if (graph_.cells[at(cell)].kept_for_weights_bytes > 0)
                return false;
    return true;
}

std::uint64_t ExactBranching::rank_bits(std::int32_t rank) const {
    std::uint64_t bits = 0;
    for (std::int32_t const lane : lanes_.lanes_of_ranks[at(rank)])
        bits |= std::uint64_t{15} << (4 * static_cast<unsigned>(lane));
    return bits;
}

/// After a weight half no work may come that could have started in its place.
std::uint64_t ExactBranching::blocked_after(std::vector<Option> const& options,
                                            Option const& chosen, std::uint64_t blocked,
                                            Frontier const& frontier) const {
    std::int32_t const rank = lanes_.lanes[at(chosen.decision.lane)].rank;
    if (chosen.decision.kind != WorkKind::backward_weight)
        return blocked & ~rank_bits(rank);
    for (Option const& option : options)
        if (lanes_.lanes[at(option.decision.lane)].rank == rank &&
            option.start <= frontier.free[at(rank)] &&
            (option.decision.kind == WorkKind::forward ||
             option.decision.kind == WorkKind::backward_input))
            blocked |= option.decision.bit();
    return blocked & ~chosen.decision.bit();
}

/// Decides the work in child_.
void ExactBranching::apply(Option const& option) {
    Counts& counts = child_.lanes[at(option.decision.lane)];
    child_.free[at(lanes_.lanes[at(option.decision.lane)].rank)] = option.end;
    auto const send = [&](std::vector<Output> const& outputs, std::vector<double>& ready) {
        for (Output const& output : outputs) {
            double arrival = option.end;
            if (output.port >= 0) {
                double& port = child_.ports[at(output.port)];
                port = std::max(port, arrival) + output.seconds;
                arrival = port + output.latency_seconds;
            }
            ready[at(output.cell)] = std::max(ready[at(output.cell)], arrival);
        }
    };
    switch (option.decision.kind) {
    case WorkKind::forward:
        ++counts.forwards;
        child_.backward_ready[at(option.cell)] =
            std::max(child_.backward_ready[at(option.cell)], option.end);
        send(forward_outputs_[at(option.cell)], child_.forward_ready);
        break;
    case WorkKind::backward:
        ++counts.weights;
        [[fallthrough]];
    case WorkKind::backward_input:
        ++counts.inputs;
        send(backward_outputs_[at(option.cell)], child_.backward_ready);
        break;
    case WorkKind::backward_weight:
        ++counts.weights;
        break;
    }
}

/// Raises the times of child_ to what the heads allow and to what makes no difference any more, so
/// that more states can be compared.
void ExactBranching::raise_times() {
    for_each_pending(child_, [&](std::vector<double> Frontier::*ready, std::size_t cell) {
        double& time = (child_.*ready)[cell];
        time = std::max(time,
                        (ready == &Frontier::forward_ready ? heads_.forward : heads_.input)[cell]);
    });
    for (std::size_t r = 0; r < child_.free.size(); ++r) {
        double first = no_memory_limit;
        double weights = 0;
        bool only_weights = true;
        for (std::int32_t const lane : lanes_.lanes_of_ranks[r]) {
            std::vector<std::int32_t> const& cells = lanes_.lanes[at(lane)].cells;
            Counts const& counts = child_.lanes[at(lane)];
            if (at(counts.forwards) < cells.size())
                first = std::min(first, heads_.forward[at(cells[at(counts.forwards)])]);
            if (at(counts.inputs) < cells.size())
                first = std::min(first, heads_.input[at(cells[at(counts.inputs)])]);
            if (at(counts.weights) < cells.size())
                first = std::min(first, heads_.weight[at(cells[at(counts.weights)])]);
            only_weights = only_weights && at(counts.inputs) == cells.size();
            for (std::size_t k = at(counts.weights); k < cells.size(); ++k)
                weights += graph_.cells[at(cells[k])].seconds.backward_weight;
        }
        if (only_weights)
            child_.free[r] = std::max(child_.free[r], least_ - weights);
        else
            child_.free[r] = std::max(child_.free[r], first);
    }
    for (std::size_t port = 0; port < child_.ports.size(); ++port)
        child_.ports[port] = std::max(child_.ports[port], child_.free[at(lanes_.ports[port].rank)]);
}

void ExactBranching::expand(Frontier& frontier, std::uint64_t blocked, double limit,
                            Follow const& follow) {
    for (;;) {
        options_.clear();
        for (std::size_t l = 0; l < lanes_.lanes.size(); ++l)
            add_options(frontier, static_cast<std::int32_t>(l));
        std::vector<Option> const options = options_;
        Option const* first = nullptr; // that ends first
        for (Option const& option : options)
            if (!(blocked & option.decision.bit()) && (!first || option.end < first->end))
                first = &option;
        if (!first)
            return;
        std::int32_t const rank = lanes_.lanes[at(first->decision.lane)].rank;
        std::uint64_t available = 0;
        for (Option const& option : options) {
            if (lanes_.lanes[at(option.decision.lane)].rank != rank ||
                (option.start >= first->end && &option != first))
                continue;
            available |= option.decision.bit();
            if (blocked & option.decision.bit())
                continue;
            child_ = frontier;
            apply(option);
            double const bound = bounds_.bound(child_, heads_);
            if (bound >= limit)
                continue;
            raise_times();
            follow(child_, {option.decision, blocked_after(options, option, blocked, frontier),
                            bound, heads_.bound_sum});
        }
        if (may_insert(*first))
            return;
        // The rank's next work arrives later.
        blocked |= available;
        frontier.free[at(rank)] = std::max(frontier.free[at(rank)], first->end);
        if (bounds_.bound(frontier, heads_) >= limit)
            return;
    }
}

} // namespace evener::schedule
