// SPDX-License-Identifier: Apache-2.0
#pragma once

// The plan of a job that names none: each rank is its own stage, in rank order; with more ranks
// than decoder layers, neighbours join into groups and share microbatches by speed. Layers go to
// groups so that the slowest takes the least time, by FLOPs over measured speed.

#include "program/plan.hpp"

#include <vector>

namespace evener::planner {

struct DefaultPlanInput {
    std::int64_t batch_size = 1;
    std::int64_t microbatch_size = 1;
    std::vector<double> rank_speeds;        ///< of any unit, > 0; one per rank
    std::vector<core::DType> compute_types; ///< one per rank; a mixed group takes float32
};

/// Schedule 1F1B, boundaries in the narrower compute type, equal shards.
program::Plan default_plan(model::Model const& model, DefaultPlanInput const& input);

/// Cuts `costs` into speeds.size() runs of at least one entry so that the largest (sum of costs) /
/// speed is as small as it can be; returns where each run ends. Needs costs.size() >=
/// speeds.size().
std::vector<std::int64_t> split_by_cost(std::vector<double> const& costs,
                                        std::vector<double> const& speeds);

} // namespace evener::planner
