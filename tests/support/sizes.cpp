// SPDX-License-Identifier: Apache-2.0

// The list of seeds of a test is a hash of its name and the index: names decide, order never does.

#include "support/sizes.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <cstdlib>

namespace evener::support {

namespace {

/// Mixes all bits of x (SplitMix64).
std::uint64_t mix(std::uint64_t x) {
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

} // namespace

Size size() {
    char const* const text = std::getenv("EVENER_TEST_SIZE");
    std::string_view const name = text ? text : "ci";
    if (name == "quick")
        return Size::quick;
    if (name == "ci" || name.empty())
        return Size::ci;
    if (name == "full")
        return Size::full;
    throw core::ConfigError{"EVENER_TEST_SIZE is '" + std::string{name} +
                            "' (it must be quick, ci or full)"};
}

int count(int full_count) {
    Size const chosen = size();
    int const divisor = chosen == Size::full ? 1 : chosen == Size::ci ? 10 : 50;
    return std::max((full_count + divisor - 1) / divisor, std::min(full_count, 2));
}

std::vector<std::uint64_t> seeds(std::string_view test, int full_count) {
    if (char const* const text = std::getenv("EVENER_TEST_SEED"); text && *text)
        return {std::strtoull(text, nullptr, 0)};
    std::uint64_t name = 0;
    for (char const letter : test)
        name = mix(name ^ static_cast<unsigned char>(letter));
    std::vector<std::uint64_t> result(static_cast<std::size_t>(count(full_count)));
    for (std::size_t i = 0; i < result.size(); ++i)
        result[i] = mix(name + i);
    return result;
}

} // namespace evener::support
