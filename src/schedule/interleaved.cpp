// SPDX-License-Identifier: Apache-2.0
#include "schedule/orders.hpp"

// Interleaved 1F1B (Narayanan et al. 2021). The chunks stand in v turns on p stages of P widths in
// all. All forwards of a stage have one order: P microbatches of its first chunk, the same of its
// second, ... of its last, then the next P microbatches. Backwards have the same order with the
// chunks from the last. Before the forward at place k a rank has done its backwards up to place k -
// window, window = own width + 2 * widths behind + (v - 1) P.
//
// The formula needs a multiple of P microbatches; for other numbers the order is made for the next
// one and the microbatches that are not there are left out.

namespace evener::schedule {

using core::ChunkId;
using core::MicrobatchId;
using program::Plan;
using program::Work;
using program::WorkKind;

Orders interleaved(Plan const& plan) {
    std::vector<Stage> const stages = stages_of(plan);
    std::int64_t const round = total_width(stages);
    auto const p = std::ssize(stages);
    std::int64_t const turns = std::ssize(plan.chunks) / p;
    std::int64_t const places = turns * core::round_up(plan.microbatch_count(), round);
    Orders orders(static_cast<std::size_t>(plan.rank_count()));
    for (std::int64_t s = 0; s < p; ++s) {
        Stage const& stage = stages[static_cast<std::size_t>(s)];
        std::int64_t const behind = round - stage.in_front - stage.width;
        std::int64_t const window = stage.width + 2 * behind + (turns - 1) * round;
        for (std::size_t member = 0; member < stage.group->ranks.size(); ++member) {
            std::vector<bool> mine(static_cast<std::size_t>(places / turns));
            for (MicrobatchId const id : stage.microbatches[member])
                mine[id.index()] = true;
            auto& order = orders[stage.group->ranks[member].index()];
            auto const add = [&](std::int64_t place, bool forward) {
                std::int64_t const turn = place / round % turns;
                MicrobatchId const id{place / (round * turns) * round + place % round};
                if (!mine[id.index()])
                    return;
                if (forward)
                    order.push_back({WorkKind::forward, ChunkId{turn * p + s}, id});
                else
                    add_backward(order, plan, ChunkId{(turns - 1 - turn) * p + s}, id);
            };
            std::int64_t backwards = 0;
            for (std::int64_t place = 0; place < places; ++place) {
                for (; backwards <= place - window; ++backwards)
                    add(backwards, false);
                add(place, true);
            }
            for (; backwards < places; ++backwards)
                add(backwards, false);
        }
    }
    return orders;
}

} // namespace evener::schedule
