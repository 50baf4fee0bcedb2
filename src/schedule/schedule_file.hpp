// SPDX-License-Identifier: Apache-2.0
#pragma once

// A schedule as a user may have written it, held against the plan: every rank does exactly its
// work, in an order that can run.

#include "core/error.hpp"
#include "program/plan.hpp"
#include "program/schedule_text.hpp"

namespace evener::schedule {

/// What makes the schedule none of the plan, each with its place: cells that are not the row's
/// rank's work, that stand twice or before what they need, work that is missing; and, where all
/// that is right, cells that wait for each other in a ring. At most 20 findings.
std::vector<core::Finding> schedule_problems(program::Plan const& plan,
                                             program::ScheduleText const& text);

/// Parses and checks. Throws core::ConfigError with the findings.
program::Schedule read_schedule(std::string_view text, std::string const& file,
                                program::Plan const& plan);

} // namespace evener::schedule
