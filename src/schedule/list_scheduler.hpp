// SPDX-License-Identifier: Apache-2.0
#pragma once

// List scheduling: time runs forward, and whenever a rank is free it takes the best of what it may
// start, by rules. Durations, wires and memory limits are those of the graph, so that the orders
// found take the time they were made for.
//
// Memory cannot block: a forward starts only if its rank can still hold the rest of the oldest
// microbatch that has forwards left there, once all older ones are done, and so on for each of the
// following ones that have begun. So the oldest microbatch of all can always go on, and a fused
// backward or a weight half never needs more memory.

#include "schedule/work_graph.hpp"

namespace evener::schedule {

struct ListRules {
    /// What to start when both a forward and a backward could.
    enum class Choice : std::uint8_t {
        backward, ///< the backward
        forward,  ///< the forward
        turns,    ///< the other kind than last time
    };
    /// When a weight half runs.
    enum class Weights : std::uint8_t {
        fill,  ///< when nothing else can start
        early, ///< before forwards
        fused, ///< with its input half, in one
    };
    /// Which chunk comes first among forwards; backwards mirror it.
    enum class Chunks : std::uint8_t {
        runs, ///< by runs of `run` microbatches, within a run by chunk
        deep, ///< the chunk nearest to the end (of the model, or of the backward)
    };

    Choice choice = Choice::backward;
    Weights weights = Weights::fill;
    Chunks chunks = Chunks::runs;
    std::int64_t run = 1;
    /// Cells of a rank between start of forward and end of input half, by rank; the oldest
    /// microbatch may always go on. Empty = no limit.
    std::vector<std::int64_t> windows;
    /// Forwards leave room for the rest of this many older microbatches.
    std::int64_t reserved = 1;
    /// A weight half does not start when a message is known to arrive within this part of it.
    double patience = 0;
};

/// Orders for all ranks. Throws core::ConfigError where a rank cannot hold one microbatch.
program::Schedule list_schedule(WorkGraph const& graph, ListRules const& rules);

} // namespace evener::schedule
