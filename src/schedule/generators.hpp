// SPDX-License-Identifier: Apache-2.0
#pragma once

// Orders of work, made from a plan with one chunk per group.
//
// GPipe (Huang et al. 2019): all forwards, then all backwards.
//
// 1F1B (Narayanan et al. 2019), written as a window so that it also covers dealt microbatches:
// group g may hold w_g microbatches between Forward and Backward, w_g = sum of the widths of the
// groups from g on, width = 1, or the number of ranks that microbatches are dealt to. Before its
// Forward of microbatch i a rank has done the Backward of all of its microbatches j <= i - w_g.
// With widths of 1 this is the usual order, with p - 1 - g forwards of warm-up. It cannot block:
// w_g >= w_(g+1), so a Forward of the group after never needs a Forward of g that g holds back.

#include "program/plan.hpp"
#include "program/program.hpp"
#include "program/schedule.hpp"

namespace evener::schedule {

/// The plan's schedule for a training step, or all forwards for an evaluation. Throws
/// core::ConfigError for a schedule name that is not known.
program::Schedule generate(program::Plan const& plan, program::ProgramKind kind);

} // namespace evener::schedule
