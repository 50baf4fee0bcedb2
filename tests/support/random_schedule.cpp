// SPDX-License-Identifier: Apache-2.0
#include "support/random_schedule.hpp"

#include "schedule/work_graph.hpp"

#include <algorithm>

namespace evener::support {

namespace {

using program::Work;
using program::WorkKind;

/// One change, legal or not.
void change(Random& random, std::vector<Work>& order) {
    std::size_t const i = random.index(order.size());
    auto const at = order.begin() + static_cast<std::ptrdiff_t>(i);
    Work const work = *at;
    if (work.kind == WorkKind::backward && random.chance(60)) {
        at->kind = WorkKind::backward_weight;
        order.insert(at, {WorkKind::backward_input, work.chunk, work.microbatch});
        return;
    }
    if (work.kind == WorkKind::backward_input && random.chance(30)) {
        std::erase(order, Work{WorkKind::backward_weight, work.chunk, work.microbatch});
        for (Work& other : order)
            if (other == work)
                other.kind = WorkKind::backward;
        return;
    }
    order.erase(at);
    // Mostly near by: far moves are seldom legal.
    auto const size = static_cast<std::int64_t>(order.size());
    std::int64_t const place = random.chance(70)
                                   ? static_cast<std::int64_t>(i) + random.integer(-3, 3)
                                   : random.integer(0, size);
    order.insert(order.begin() + std::clamp<std::int64_t>(place, 0, size), work);
}

} // namespace

program::Schedule edited(Random& random, program::Plan const& plan, program::Schedule schedule,
                         int edits) {
    auto const graph =
        schedule::make_work_graph(plan, program::uniform_costs(plan, {1, 1, 1, 2}), 0);
    for (int i = 0; i < edits; ++i) {
        program::Schedule next = schedule;
        auto& order = next.ranks[random.index(next.ranks.size())];
        if (order.empty())
            continue;
        change(random, order);
        try {
            schedule::evaluate(graph, next);
            schedule = std::move(next);
        } catch (core::ConfigError const&) {
        }
    }
    schedule.name = "edited";
    return schedule;
}

} // namespace evener::support
