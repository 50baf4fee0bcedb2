// SPDX-License-Identifier: Apache-2.0

// Tails of WorkBounds: least times from the end of a piece of work to the end of the step. They
// mirror the heads, and do not depend on what has been decided.

#include "schedule/work_bounds.hpp"

#include <algorithm>

namespace evener::schedule {

namespace {

std::size_t at(std::int32_t index) {
    return static_cast<std::size_t>(index);
}

} // namespace

/// Seconds of work by lane that has been gone through, from the last microbatch back.
struct WorkBounds::Rests {
    std::vector<double> forward;
    std::vector<double> input;
    std::vector<double> weight;
    std::vector<double> from_forward; ///< by cell: forwards of its lane from it on
    std::vector<double> from_input;   ///< by cell: likewise input halves
};

void WorkBounds::make_tails() {
    for (std::vector<double>* const tails : {&forward_tails_, &input_tails_, &weight_tails_})
        tails->assign(graph_.cells.size(), 0);
    Rests rests;
    for (std::vector<double>* const sums : {&rests.forward, &rests.input, &rests.weight})
        sums->assign(lanes_.lanes.size(), 0);
    rests.from_forward.resize(graph_.cells.size());
    rests.from_input.resize(graph_.cells.size());
    for (std::size_t m = lanes_.microbatches.size(); m-- > 0;) {
        std::vector<std::int32_t> const& cells = lanes_.microbatches[m];
        for (std::int32_t const cell : cells)
            set_backward_tails(cell, rests);
        for (std::size_t i = cells.size(); i-- > 0;)
            set_forward_tail(cells[i], rests);
    }
}

void WorkBounds::set_backward_tails(std::int32_t cell, Rests& rests) {
    std::size_t const lane = at(lanes_.lane_of[at(cell)]);
    std::vector<std::int32_t> const& cells = lanes_.lanes[lane].cells;
    std::size_t const place = at(lanes_.place_of[at(cell)]);
    auto const rank = at(lanes_.lanes[lane].rank);

    double inputs = 0; // work that the rank does after
    double weights = 0;
    for (std::int32_t const other : lanes_.lanes_of_ranks[rank])
        if (lanes_.lanes[at(other)].chunk <= lanes_.lanes[lane].chunk) {
            inputs += rests.input[at(other)];
            weights += other == static_cast<std::int32_t>(lane) ? 0 : rests.weight[at(other)];
        }
    double weight = rests.weight[lane];
    double input = inputs + weights + rests.weight[lane] + lanes_.weight_seconds[at(cell)];
    if (std::size_t const unlocked = at(unlocks_[at(cell)]); unlocked < cells.size()) {
        std::size_t const next = at(cells[unlocked]);
        weight += rests.from_forward[next] + rests.from_input[next];
        weight = std::max(weight, graph_.cells[next].seconds.forward + forward_tails_[next]);
        input += rests.from_forward[next];
    }
    if (in_order_ && place + 1 < cells.size()) {
        std::size_t const next = at(cells[place + 1]);
        weight = std::max(weight, lanes_.weight_seconds[next] + weight_tails_[next]);
        input = std::max(input, lanes_.input_seconds[next] + input_tails_[next]);
    }
    for (Departure const& departure : graph_.backward_outputs(cell))
        input = std::max(input, departure.arrival.seconds + departure.arrival.latency_seconds +
                                    lanes_.input_seconds[at(departure.cell)] +
                                    input_tails_[at(departure.cell)]);
    weight_tails_[at(cell)] = weight;
    input_tails_[at(cell)] = std::max(input, lanes_.weight_seconds[at(cell)] + weight);
    if (!in_order_)
        return;
    rests.input[lane] += lanes_.input_seconds[at(cell)];
    rests.weight[lane] += lanes_.weight_seconds[at(cell)];
    rests.from_input[at(cell)] = rests.input[lane];
}

void WorkBounds::set_forward_tail(std::int32_t cell, Rests& rests) {
    std::size_t const lane = at(lanes_.lane_of[at(cell)]);
    std::vector<std::int32_t> const& cells = lanes_.lanes[lane].cells;
    std::size_t const place = at(lanes_.place_of[at(cell)]);
    double tail = 0;
    for (std::int32_t const other : lanes_.lanes_of_ranks[at(lanes_.lanes[lane].rank)]) {
        tail += rests.input[at(other)] + rests.weight[at(other)];
        if (lanes_.lanes[at(other)].chunk >= lanes_.lanes[lane].chunk)
            tail += rests.forward[at(other)];
    }
    tail = std::max(tail, lanes_.input_seconds[at(cell)] + input_tails_[at(cell)]);
    if (in_order_ && place + 1 < cells.size()) {
        std::size_t const next = at(cells[place + 1]);
        tail = std::max(tail, graph_.cells[next].seconds.forward + forward_tails_[next]);
    }
    for (Departure const& departure : graph_.forward_outputs(cell))
        tail = std::max(tail, departure.arrival.seconds + departure.arrival.latency_seconds +
                                  graph_.cells[at(departure.cell)].seconds.forward +
                                  forward_tails_[at(departure.cell)]);
    forward_tails_[at(cell)] = tail;
    if (!in_order_)
        return;
    rests.forward[lane] += graph_.cells[at(cell)].seconds.forward;
    rests.from_forward[at(cell)] = rests.forward[lane];
}

} // namespace evener::schedule
