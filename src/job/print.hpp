// SPDX-License-Identifier: Apache-2.0
#pragma once

// Jobs and plans as TOML text. parse_job_text(print_job(job)) equals job for every resolved job.

#include "job/job.hpp"

#include <string>
#include <vector>

namespace evener::job {

/// Every key with its value.
std::string print_job(Job const& job);

/// The [plan] table alone, for `plan.toml`.
std::string print_plan(Plan const& plan);

/// What decides the numbers of a training, which its [model], [data], [train], [optimizer] and
/// [precision] are: the keys whose values differ, as "train.batch_size 8 -> 4".
std::vector<std::string> changed_values(Job const& before, Job const& now);

/// inputs/reference.toml: every key with its meaning, its values and its default; a job as it
/// stands.
std::string reference_text();

} // namespace evener::job
