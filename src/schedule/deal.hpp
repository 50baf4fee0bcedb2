// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which rank gets which microbatch where a group deals whole ones: static deals, and the choice
// among them by evaluating schedules.

#include "program/costs.hpp"
#include "program/plan.hpp"

#include <functional>
#include <string>
#include <vector>

namespace evener::schedule {

struct Deal {
    std::string name;
    std::vector<std::int32_t> members; ///< of the group, by microbatch
};

/// Deals of `count` microbatches to the members with a share, of whom member j needs seconds[j] for
/// each:
///
///   weights    by the group's shares, as evenly as they allow
///   speeds     the same by 1 / seconds
///   finish     each to whoever would have done it first
///   remaining  numbers by speed; then round by round, in the order in which they are finished
///              before, to the members in the order of the work that they still have to get (the
///              rule of Zorse, 2025)
///   blocks     numbers as `finish`; each member's in a row, the slowest first
std::vector<Deal> static_deals(program::Group const& group, std::int64_t count,
                               std::vector<double> const& seconds);

struct DealChoice {
    program::Plan plan; ///< with explicit deals
    double seconds = 0;
    /// What was tried for the last dealt group, the others as chosen: seconds by name.
    std::vector<std::pair<std::string, double>> tried;
};

/// Gives every dealt group without an explicit deal the one with which the plan is fastest, group
/// by group from the first; ties go to the one named first above. `evaluated` gives the seconds of
/// a plan's step.
DealChoice choose_deals(program::Plan plan, program::Costs const& costs,
                        std::function<double(program::Plan const&)> const& evaluated);

} // namespace evener::schedule
