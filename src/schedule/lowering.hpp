// SPDX-License-Identifier: Apache-2.0
#pragma once

// From a plan and a schedule to the programs of all ranks: messages, waits, collectives, buffers
// and their offsets. What each rank does in a training step:
//
//   GatherParameters   each bucket with more than one member (collective queue)
//   the schedule       Receives -> Forward / Backward -> Sends; a Receive waits for the consumer
//                      that frees its slot, a computation for the Send that frees its send buffer
//   ReduceGradients    each bucket with more than one member, chunks from last to first, then
//                      shared ones: one order for all ranks, so that no two wait for each other
//   MeasureGradients   each bucket it owns a shard of;  CountTokens where it has a head
//   ReduceScalars      then UpdateParameters of each bucket it owns a shard of
//
// A bucket with one member needs neither gather nor reduction: its gradient is the reduced one.

#include "program/program.hpp"
#include "program/schedule.hpp"

namespace evener::schedule {

struct LoweringOptions {
    program::ProgramKind kind = program::ProgramKind::train;
    /// Workspace that the operations of each rank's device need, by rank.
    std::vector<std::int64_t> device_workspace_bytes;
    std::int64_t moments = 2; ///< optimizer moments per parameter (AdamW 2, SGD 0)
};

/// The plan must have no problems (program::plan_problems). Throws core::ConfigError when no number
/// of receive buffers up to the plan's limit keeps the schedule from blocking.
program::ProgramSet lower(program::Plan const& plan, model::Model const& model,
                          program::Schedule const& schedule, LoweringOptions const& options);

} // namespace evener::schedule
