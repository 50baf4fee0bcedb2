// SPDX-License-Identifier: Apache-2.0
#include "core/size_text.hpp"

#include "core/error.hpp"

#include <fmt/format.h>

#include <cmath>
#include <iterator>
#include <string_view>

namespace evener::core {

std::string size_text(double bytes, int digits) {
    static constexpr std::string_view units[] = {"B", "kB", "MB", "GB", "TB"};
    EVENER_EXPECT(digits == 3 || digits == 4);
    if (bytes < 0)
        return "-" + size_text(-bytes, digits);
    double const half = 0.5 * std::pow(10, 3 - digits); // of the last digit of a value up to 1000
    std::size_t unit = 0;
    for (; bytes >= 1000 - half && unit + 1 < std::size(units); ++unit)
        bytes /= 1000;
    if (unit == 0)
        return fmt::format("{:.0f} B", bytes);
    // A value that rounds up to 10 or 100 has one digit more before its point.
    int const before = bytes >= 100 - half / 10 ? 3 : bytes >= 10 - half / 100 ? 2 : 1;
    return fmt::format("{:.{}f} {}", bytes, digits - before, units[unit]);
}

std::string size_text(std::int64_t bytes) {
    return size_text(static_cast<double>(bytes), 4);
}

} // namespace evener::core
