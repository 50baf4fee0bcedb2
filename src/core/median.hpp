// SPDX-License-Identifier: Apache-2.0
#pragma once

// The middle of measured values, which single disturbed ones do not move.

#include <algorithm>
#include <iterator>
#include <vector>

namespace evener::core {

/// The upper one of the two middle values where there are two; 0 for none.
inline double median(std::vector<double> values) {
    if (values.empty())
        return 0;
    auto const middle = values.begin() + std::ssize(values) / 2;
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

} // namespace evener::core
