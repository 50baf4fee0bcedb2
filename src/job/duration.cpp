// SPDX-License-Identifier: Apache-2.0
#include "job/duration.hpp"

#include <algorithm>
#include <vector>

namespace evener::job {

namespace {

constexpr std::int64_t longest = 1'000'000'000; // seconds

/// At most ten digits, so that no sum below overflows.
std::optional<std::int64_t> whole_number(std::string_view text) {
    if (text.empty() || text.size() > 10)
        return std::nullopt;
    std::int64_t value = 0;
    for (char const digit : text) {
        if (digit < '0' || digit > '9')
            return std::nullopt;
        value = 10 * value + (digit - '0');
    }
    return value;
}

} // namespace

std::optional<std::int64_t> parse_duration(std::string_view text) {
    std::int64_t days = 0;
    std::size_t const hyphen = text.find('-');
    bool const has_days = hyphen != std::string_view::npos;
    if (has_days) {
        auto const number = whole_number(text.substr(0, hyphen));
        if (!number)
            return std::nullopt;
        days = *number;
        text.remove_prefix(hyphen + 1);
    }
    std::vector<std::int64_t> parts;
    for (std::size_t begin = 0; begin <= text.size();) {
        std::size_t const end = std::min(text.find(':', begin), text.size());
        auto const number = whole_number(text.substr(begin, end - begin));
        bool const digits_fit = parts.empty() || (end - begin == 2 && number && *number < 60);
        if (!number || !digits_fit)
            return std::nullopt;
        parts.push_back(*number);
        begin = end + 1;
    }
    if (parts.size() > 3 || (has_days && (parts.size() != 3 || parts.front() > 23)))
        return std::nullopt;
    std::int64_t seconds = 0;
    for (std::int64_t const part : parts)
        seconds = 60 * seconds + part;
    seconds += 86'400 * days;
    if (seconds < 1 || seconds > longest)
        return std::nullopt;
    return seconds;
}

} // namespace evener::job
