// SPDX-License-Identifier: Apache-2.0
#pragma once

// From what the user wrote to what is in force: presets and derived values. Nothing is reported
// here; what cannot be derived stays 0 or empty and validate.cpp says so. Internal to src/job.

#include "job/job.hpp"

#include <string>
#include <string_view>

namespace evener::job {

/// The shape of a preset; fields that follow from others are 0.
Model preset_model(Preset preset);

/// `file` gives the default of run.name.
void resolve(Job& job, std::string_view file);
void resolve(Plan& plan);

/// With on_mismatch "replan" and groups for another number of ranks than `ranks` (> 0): drops what
/// is for those ranks, and returns the line that says so; else "".
std::string drop_mismatch(Plan& plan, std::int64_t ranks);

} // namespace evener::job
