// SPDX-License-Identifier: Apache-2.0
#pragma once

// From a plan and a schedule to the programs of all ranks: messages, waits, collectives, buffers
// and their offsets. What each rank does in a training step:
//
//   GatherParameters   each bucket with more than one member (collective queue)
//   the schedule       Receives -> Forward / Backward -> Sends; a Receive waits for the consumer
//                      that frees its slot, a computation for the Send that frees its send buffer
//   ReduceGradients    each bucket with more than one member, one item of work behind its last, in
//                      one order for all ranks, so that no two wait for each other
//   MeasureGradients   each bucket it owns a shard of;  CountTokens where it has a head
//   ReduceScalars      then UpdateParameters of each bucket it owns a shard of
//
// A bucket with one member needs neither gather nor reduction: its gradient is the reduced one.
//
// Recompute stands in front of each Backward of a chunk that the plan recomputes.
// What a rank offloads comes and goes beside the computations: the weights of the next run's chunk
// while a run computes (schedule/residences.hpp); kept activations one item behind Forward and one
// ahead of Backward (inputs to recompute from, which are small, a few ahead of it); master weights
// and moments for the update of their bucket, the bucket after it being fetched meanwhile; the
// reduced gradient leaves when it is measured and comes back for the update. Interleaved updates
// follow the reduction; they wait for no scalars.
// Memory of gradients (and of all that comes and goes) is taken over by what comes later in the
// list, with a wait for the end of its last use. Where ranks could so wait for each other in a ring,
// or (with costs, and a plan that neither offloads nor interleaves updates) where the waits make the
// pass longer and there is memory enough, reductions stand behind all computations and each gradient
// has memory of its own.
//
// Buffers of a link. A receive buffer is taken from the moment when a message may leave until its
// consumer has ended, a send buffer from the start of the producer until the message has left.
// Each end of a link gets one buffer more than the smallest number that cannot block (one for
// sends), so that a message can arrive, or be made, while the one before is used or leaves. With
// costs the programs are simulated: where that makes the pass longer than buffers without limit
// would, each link gets as many as keep its messages from waiting for one (which includes what
// hides a link's latency). Where the ranks' memory does not suffice they get what fits, but never
// less than the smallest number that cannot block. A plan that states its receive buffers gets just
// these, and one send buffer.

#include "program/costs.hpp"
#include "program/program.hpp"
#include "program/schedule.hpp"

namespace evener::schedule {

struct LoweringOptions {
    program::ProgramKind kind = program::ProgramKind::train;
    /// Workspace that the operations of each rank's device need, by rank.
    std::vector<std::int64_t> device_workspace_bytes = {};
    std::int64_t moments = 2; ///< optimizer moments per parameter (AdamW 2, SGD 0)
    program::Costs const* costs = nullptr;
    std::vector<std::int64_t> memory_limit_bytes = {}; ///< of the arena, by rank; empty = none
    /// Devices whose memory that is, by rank, for messages; empty words where it is the host's.
    std::vector<std::string> device_names = {};
};

/// The plan must have no problems (program::plan_problems). Throws core::ConfigError when the
/// schedule blocks whatever the number of buffers, when it blocks with the number that the plan
/// says, and when it does not fit the memory limits with the fewest.
program::ProgramSet lower(program::Plan const& plan, model::Model const& model,
                          program::Schedule const& schedule, LoweringOptions const& options);

/// Receive buffers of one direction between two ranks.
struct LinkNeed {
    core::RankId sender;
    core::RankId receiver;
    program::Direction direction = program::Direction::forward;
    std::int64_t smallest = 0;      ///< that cannot block
    std::int64_t without_stall = 0; ///< with which no message waits for one, by the costs

    friend bool operator==(LinkNeed const&, LinkNeed const&) = default;
};

/// What each link needs, ascending by sender, receiver and direction. `options.costs` must be set.
std::vector<LinkNeed> link_needs(program::Plan const& plan, model::Model const& model,
                                 program::Schedule const& schedule, LoweringOptions const& options);

} // namespace evener::schedule
