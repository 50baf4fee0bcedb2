// SPDX-License-Identifier: Apache-2.0
#pragma once

// The schedules as their papers write them down: p ranks, one after the other, of one rank each,
// with counters and loops and no windows. What the generators must give for such a chain.

#include "program/plan.hpp"
#include "program/schedule.hpp"

#include <cstdint>
#include <vector>

namespace evener::schedule::textbook {

using Orders = std::vector<std::vector<program::Work>>;

/// p groups of one rank, `turns` chunks each, m microbatches of one sequence; chunks have one layer.
/// `v`: on the way to the last group and back, else in turns.
enum class Placement { turns, v };
program::Plan chain(std::int64_t p, std::int64_t m, std::string const& name, std::int64_t turns = 1,
                    Placement placement = Placement::turns);

Orders gpipe(std::int64_t p, std::int64_t m);
/// `extra` more forwards of warm-up on the ranks before `cut`.
Orders one_f_one_b(std::int64_t p, std::int64_t m, std::int64_t cut = 0, std::int64_t extra = 0);
/// strength 1: ZB-H1, 2: ZB-H2.
Orders zb_h(std::int64_t p, std::int64_t m, std::int64_t strength);
/// m must be a multiple of p.
Orders interleaved(std::int64_t p, std::int64_t m, std::int64_t v);
Orders breadth_first(std::int64_t p, std::int64_t m, std::int64_t v);
Orders zb_v(std::int64_t p, std::int64_t m);

} // namespace evener::schedule::textbook
