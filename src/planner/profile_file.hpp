// SPDX-License-Identifier: Apache-2.0
#pragma once

// A profile as a JSON file, for `evener profile` to write and for later jobs to read.

#include "planner/profile.hpp"

#include <string>
#include <string_view>

namespace evener::planner {

std::string print_profile(Profile const& profile);

/// `name` is the file's, for messages. Throws core::ConfigError for what is no profile, for numbers
/// that are negative or not finite, and for routes that lead to no wire.
Profile parse_profile(std::string_view text, std::string const& name);

/// Why the profile cannot serve a model or a number of ranks, in words for the user; empty = it can.
std::string profile_problem(Profile const& profile, model::Model const& model,
                            std::int64_t rank_count);

} // namespace evener::planner
