// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a resolved job must fulfil: the bounds of each key, then how keys fit together. All problems
// become findings. Internal to src/job.

#include "job/findings.hpp"
#include "job/parse.hpp"

namespace evener::job {

void validate(Job const& job, ParseOptions const& options, Findings& findings);

/// The plan in itself, for one that is not part of a job.
void validate_plan_alone(Plan const& plan, ParseOptions const& options, Findings& findings);

/// Explicit deals against the number of microbatches.
void validate_deals(Plan const& plan, Train const& train, Findings& findings);

/// How the plan's keys fit together; its layers against `model` unless that is null.
void validate_plan(Plan const& plan, Model const* model, ParseOptions const& options,
                   Findings& findings);

} // namespace evener::job
