// SPDX-License-Identifier: Apache-2.0
#pragma once

// Numbers of bytes as people read them.

#include <cstdint>
#include <string>

namespace evener::core {

/// `bytes` in the unit of B, kB, MB, GB or TB (powers of 1000) that fits, with so many significant
/// digits (3 or 4): `0 B`, `61.20 kB`, `1.250 GB`; above 1000 TB all digits before the point.
std::string size_text(double bytes, int digits);
/// With four digits, for messages that compare two of them.
std::string size_text(std::int64_t bytes);

} // namespace evener::core
