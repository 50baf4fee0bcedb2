// SPDX-License-Identifier: Apache-2.0
#pragma once

// The greedy search: list schedules under many rules, and the fastest of them.

#include "schedule/list_scheduler.hpp"

namespace evener::schedule {

struct GreedyOptions {
    /// Pieces of work that all tries together may place. Bounds the time, and unlike a limit in
    /// seconds gives the same schedule on every machine; the first try is always made.
    std::int64_t work_budget = 2'500'000;
};

/// A schedule that keeps the memory limits. Ties between rules go to the one tried first. Throws
/// core::ConfigError where a rank cannot hold one microbatch.
program::Schedule greedy(WorkGraph const& graph, GreedyOptions const& options = {});

/// Cells that each rank must have between the start of a forward and the end of its input half so
/// that the slowest rank never waits: the way of a message to the end of the model and back over
/// the time that the slowest rank needs for a microbatch. A one-way delay of d on the way adds
/// 2 d to the former (the law for slow links).
std::vector<std::int64_t> full_windows(WorkGraph const& graph);

} // namespace evener::schedule
