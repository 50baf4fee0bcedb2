// SPDX-License-Identifier: Apache-2.0
#pragma once

// The schedule "auto": every generator that fits the plan's placement, the greedy search, and from
// the best of them on local improvement and a beam search; the fastest that fits the memory limits
// is chosen.

#include "program/plan.hpp"
#include "schedule/greedy.hpp"
#include "schedule/improve.hpp"

#include <string>

namespace evener::schedule {

/// What was tried, for the user to see why one was chosen.
struct Candidate {
    std::string name;               ///< a generator's, "greedy", "improved" or "beam"
    std::string problem;            ///< why there is no schedule; empty = there is one
    bool fits = false;              ///< within the memory limits
    double seconds = 0;             ///< by evaluate()
    std::vector<double> peak_bytes; ///< by rank, of what cells keep
};

struct Choice {
    program::Schedule schedule; ///< named "auto"
    double seconds = 0;
    std::vector<Candidate> candidates; ///< in the order tried
    std::size_t chosen = 0;            ///< index of the candidate that `schedule` is from
    double lower_bound = 0;            ///< no schedule within the limits is faster
};

struct ChooseOptions {
    GreedyOptions greedy;
    ImproveOptions improve;
    std::int64_t beam_work_budget = 50'000'000;
};

/// Never slower than the fastest generator within the limits. Backwards are fused where that costs
/// no time. Throws core::ConfigError where a rank cannot hold one microbatch.
Choice choose(program::Plan const& plan, WorkGraph const& graph, ChooseOptions const& options = {});

} // namespace evener::schedule
