// SPDX-License-Identifier: Apache-2.0
#pragma once

// Durations as a job writes them.

#include <cstdint>
#include <optional>
#include <string_view>

namespace evener::job {

/// Seconds of "90", "1:30", "3:30:00" or "1-12:00:00" (days before the hyphen, as Slurm writes
/// it); nothing where the text is no duration. Parts behind a colon have two digits below 60; after
/// days there are at most 23 hours. At least 1 s and at most some 30 years.
std::optional<std::int64_t> parse_duration(std::string_view text);

} // namespace evener::job
