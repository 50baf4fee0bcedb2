// SPDX-License-Identifier: Apache-2.0
#include "schedule/order_moves.hpp"

#include "schedule/memory_room.hpp"

#include <algorithm>

namespace evener::schedule {

using program::Work;
using program::WorkKind;

namespace {

using Order = std::vector<Work>;

bool same_cell(Work const& a, Work const& b) {
    return a.chunk == b.chunk && a.microbatch == b.microbatch;
}

/// Takes the work at `from` out and puts it in so that it stands at `to`.
void rotate_to(Order& order, std::size_t from, std::size_t to) {
    auto const begin = order.begin();
    auto const index = [&](std::size_t i) { return begin + static_cast<std::ptrdiff_t>(i); };
    if (from < to)
        std::rotate(index(from), index(from + 1), index(to + 1));
    else
        std::rotate(index(to), index(from), index(from + 1));
}

/// Index of the weight half of the input half at `index`.
std::size_t weight_half(Order const& order, std::size_t index) {
    std::size_t i = index + 1;
    while (i < order.size() &&
           !(same_cell(order[i], order[index]) && order[i].kind == WorkKind::backward_weight))
        ++i;
    return i;
}

} // namespace

bool OrderMoves::move(Order& order, std::size_t from, std::size_t to) {
    Work const work = order[from];
    std::size_t place = from;
    if (to < from)
        while (place > to && !same_cell(order[place - 1], work))
            --place;
    else
        while (place < to && !same_cell(order[place + 1], work))
            ++place;
    if (place == from)
        return false;
    rotate_to(order, from, place);
    return true;
}

bool OrderMoves::fuse(Order& order, std::size_t index) {
    if (order[index].kind != WorkKind::backward_input)
        return false;
    order.erase(order.begin() + static_cast<std::ptrdiff_t>(weight_half(order, index)));
    order[index].kind = WorkKind::backward;
    return true;
}

bool OrderMoves::split(Order& order, std::size_t index, std::size_t to) {
    if (order[index].kind != WorkKind::backward)
        return false;
    Work weight = order[index];
    weight.kind = WorkKind::backward_weight;
    order[index].kind = WorkKind::backward_input;
    std::size_t const place = std::clamp(to, index + 1, order.size());
    order.insert(order.begin() + static_cast<std::ptrdiff_t>(place), weight);
    return true;
}

Cell const& OrderMoves::cell(core::RankId rank, Work const& work) const {
    return graph_.cells[static_cast<std::size_t>(graph_.find(rank, work.chunk, work.microbatch))];
}

std::size_t OrderMoves::first_excess(core::RankId rank, Order const& order) const {
    double const limit = MemoryRoom::with_margin(graph_.memory_limits[rank.index()]);
    double kept = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
        Cell const& own = cell(rank, order[i]);
        switch (order[i].kind) {
        case WorkKind::forward:
            kept += own.kept_bytes;
            break;
        case WorkKind::backward_input:
            kept += own.kept_for_weights_bytes;
            break;
        case WorkKind::backward:
        case WorkKind::backward_weight:
            break;
        }
        if (kept > limit)
            return i;
        if (order[i].kind == WorkKind::backward)
            kept -= own.kept_bytes;
        else if (order[i].kind == WorkKind::backward_weight)
            kept -= own.kept_bytes + own.kept_for_weights_bytes;
    }
    return order.size();
}

bool OrderMoves::fit_memory(core::RankId rank, Order& order) const {
    if (graph_.memory_limits[rank.index()] == no_memory_limit)
        return true;
    for (;;) {
        std::size_t const excess = first_excess(rank, order);
        if (excess == order.size())
            return true;
        // The next weight half whose input half is done by then.
        std::size_t weight = excess + 1;
        for (; weight < order.size(); ++weight) {
            if (order[weight].kind != WorkKind::backward_weight)
                continue;
            auto const end = order.begin() + static_cast<std::ptrdiff_t>(excess);
            if (std::any_of(order.begin(), end, [&](Work const& work) {
                    return work.kind == WorkKind::backward_input && same_cell(work, order[weight]);
                }))
                break;
        }
        if (weight == order.size())
            return false;
        rotate_to(order, weight, excess);
    }
}

} // namespace evener::schedule
