// SPDX-License-Identifier: Apache-2.0
#pragma once

// Local improvement: work of one rank is moved earlier or later, halves of a backward are fused or
// split; what evaluate() finds no slower is kept. Moves start at a random place of the critical path.
// After a time without success the best schedule is shaken and improved again.

#include "schedule/work_graph.hpp"

namespace evener::schedule {

struct ImproveOptions {
    std::uint64_t seed = 1;
    /// Pieces of work that all evaluations together may run: the same schedule on every machine.
    std::int64_t work_budget = 2'000'000;
    /// Cuts off earlier; what is then found depends on the machine.
    double seconds = no_memory_limit;
};

/// A schedule that is no slower and keeps the memory limits, which `schedule` must keep.
/// Deterministic by seed and work budget. Throws core::ConfigError as evaluate().
program::Schedule improve(WorkGraph const& graph, program::Schedule schedule,
                          ImproveOptions const& options = {});

} // namespace evener::schedule
