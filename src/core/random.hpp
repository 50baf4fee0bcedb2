// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random numbers by address: (seed, stream, index) names one number for good. Streams separate
// uses (a parameter, a step and layer), the index counts within one; all 64-bit values are legal.
// Every rank computes the same number for the same place, under any plan.

#include "core/philox.hpp"

#include <cmath>
#include <cstdint>
#include <numbers>

namespace evener::core {

namespace detail {

/// The upper 53 bits of two words as a multiple of 2^-53 in [0, 1).
constexpr double unit_interval(std::uint32_t low, std::uint32_t high) {
    std::uint64_t const bits = (static_cast<std::uint64_t>(high) << 32) | low;
    return static_cast<double>(bits >> 11) * 0x1p-53;
}

} // namespace detail

/// Uniform in [0, 1), 53 random bits.
constexpr double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    PhiloxCounter const bits = philox4x32(philox_counter(stream, index), split_words(seed));
    return detail::unit_interval(bits[0], bits[1]);
}

/// Standard normal (Box-Muller in double, one pair of uniforms per number); |x| stays below 8.6.
inline float normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
    PhiloxCounter const bits = philox4x32(philox_counter(stream, index), split_words(seed));
    double const radius_u = 1.0 - detail::unit_interval(bits[0], bits[1]); // (0, 1]: log is finite
    double const angle = 2.0 * std::numbers::pi * detail::unit_interval(bits[2], bits[3]);
    return static_cast<float>(std::sqrt(-2.0 * std::log(radius_u)) * std::cos(angle));
}

} // namespace evener::core
