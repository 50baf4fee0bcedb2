// SPDX-License-Identifier: Apache-2.0
#pragma once

// bfloat16 as storage: the upper half of a float32. Nothing computes in it.

#include <bit>
#include <cstdint>

namespace evener::kernels {

struct BFloat16 {
    std::uint16_t bits = 0;
};

constexpr float to_float(BFloat16 value) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

/// Rounds to nearest even; NaN stays NaN.
constexpr BFloat16 to_bfloat16(float value) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return {static_cast<std::uint16_t>((bits >> 16) | 0x40u)};
    return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

} // namespace evener::kernels
