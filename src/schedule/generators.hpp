// SPDX-License-Identifier: Apache-2.0
#pragma once

// Orders of work, made from a plan by name, for any numbers of groups and microbatches.
//
//   gpipe          all forwards, chunk by chunk, then all backwards from the last chunk (Huang et
//                  al. 2019); any placement of chunks
//   breadth_first  the same with the backwards in reverse order of microbatches (Lamy-Poirier
//                  2023); any placement
//   1f1b           as few microbatches in flight as keep all stages busy (Narayanan et al. 2019);
//                  one chunk per group
//   interleaved    the same with several chunks per group, placed in turns (Narayanan et al. 2021)
//   zb-h1, zb-h2   1F1B whose weight gradients fill the bubbles, with the memory of the first
//                  stage of 1F1B on all stages or with about twice as much (Qi et al. 2023); one
//                  chunk per group
//   zb-v           two chunks per group, placed in a V, without bubbles for equal times (Qi et al.
//                  2024)
//
// Where a group deals whole microbatches to its ranks, each rank's order has its own microbatches
// only, and the limits count the microbatches that the groups behind hold together: see orders.hpp.

#include "program/plan.hpp"
#include "program/program.hpp"
#include "program/schedule.hpp"

#include <span>
#include <string>
#include <string_view>

namespace evener::schedule {

/// The names above.
std::span<std::string_view const> generator_names();

/// Why the named schedule cannot be made for the plan, and what to do; empty = it can.
std::string generator_problem(program::Plan const& plan, std::string_view name);

/// The plan's schedule for a training step; all forwards, in rounds, for an evaluation. Throws
/// core::ConfigError with the text of generator_problem().
program::Schedule generate(program::Plan const& plan, program::ProgramKind kind);

/// 1F1B with `extra[g]` more microbatches in flight in group g: what hides the latency of a slow
/// link behind it (a group gets as many as the groups after it where that is more). Throws as
/// generate().
program::Schedule generate_one_f_one_b(program::Plan const& plan,
                                       std::vector<std::int64_t> const& extra);

} // namespace evener::schedule
