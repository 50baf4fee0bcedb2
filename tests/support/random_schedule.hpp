// SPDX-License-Identifier: Apache-2.0
#pragma once

// Schedules as a user edits them: a generated order with random legal changes.

#include "program/schedule.hpp"
#include "support/random_plan.hpp"

namespace evener::support {

/// Up to `edits` changes: work moved within its row, backwards split and joined. What would not run
/// any more is not changed, so the result is a schedule of the plan.
program::Schedule edited(Random& random, program::Plan const& plan, program::Schedule schedule,
                         int edits);

} // namespace evener::support
