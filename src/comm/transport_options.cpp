// SPDX-License-Identifier: Apache-2.0
#include "comm/transport.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace evener::comm {

namespace {

constexpr char const* synchronous_variable = "EVENER_SYNCHRONOUS_SENDS";
constexpr char const* delays_variable = "EVENER_RANDOM_DELAYS";

template <class T>
bool parse(std::string_view text, T& value) {
    auto const [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && rest == text.data() + text.size();
}

RandomDelays parse_delays(std::string_view text) {
    RandomDelays delays;
    auto const colon = text.find(':');
    if (colon == std::string_view::npos || !parse(text.substr(0, colon), delays.seed) ||
        !parse(text.substr(colon + 1), delays.max_microseconds) || delays.max_microseconds < 0)
        throw core::ConfigError{fmt::format(
            "{} is '{}' (it is SEED:MAX_MICROSECONDS) set it to two numbers such as 7:500",
            delays_variable, text)};
    return delays;
}

} // namespace

TransportOptions TransportOptions::from_environment() {
    TransportOptions options;
    if (char const* const text = std::getenv(synchronous_variable)) {
        std::string_view const value = text;
        if (value != "0" && value != "1")
            throw core::ConfigError{
                fmt::format("{} is '{}' (a switch) set it to 0 or 1", synchronous_variable, value)};
        options.synchronous_sends = value == "1";
    }
    if (char const* const text = std::getenv(delays_variable))
        options.random_delays = parse_delays(text);
    return options;
}

} // namespace evener::comm
