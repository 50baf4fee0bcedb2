// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small vocabulary shared by every folder: element types, half-open ranges, checked narrowing.

#include "core/error.hpp"

#include <bit>
#include <cstdint>
#include <string_view>

namespace evener::core {

/// Element types that Evener computes and stores in.
enum class DType : std::uint8_t { float32, bfloat16 };

constexpr std::int64_t bytes_of(DType type) {
    return type == DType::float32 ? 4 : 2;
}
constexpr std::string_view name_of(DType type) {
    return type == DType::float32 ? "float32" : "bfloat16";
}

/// bfloat16 <-> float32 by bits; to bfloat16 rounds to nearest even, NaN stays NaN.
constexpr float to_float(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}
constexpr std::uint16_t to_bfloat16(float value) {
    auto const bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        return static_cast<std::uint16_t>((bits >> 16) | 0x40u);
    return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// Half-open range [begin, end).
struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;

    constexpr std::int64_t size() const { return end - begin; }
    constexpr bool empty() const { return end <= begin; }
    friend constexpr bool operator==(Range, Range) = default;
};

/// The part that two ranges share; empty (0, 0) when they are disjoint.
constexpr Range overlap(Range a, Range b) {
    std::int64_t const begin = a.begin > b.begin ? a.begin : b.begin;
    std::int64_t const end = a.end < b.end ? a.end : b.end;
    return begin < end ? Range{begin, end} : Range{};
}

/// a / b rounded up, for a >= 0, b > 0.
constexpr std::int64_t div_up(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}
/// The smallest multiple of `unit` that is not below `value`.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t unit) {
    return div_up(value, unit) * unit;
}

/// static_cast that throws ContractViolation when the value does not fit.
template <class To, class From>
constexpr To narrow(From value) {
    auto const result = static_cast<To>(value);
    EVENER_EXPECT(static_cast<From>(result) == value && ((result < To{}) == (value < From{})));
    return result;
}

} // namespace evener::core
