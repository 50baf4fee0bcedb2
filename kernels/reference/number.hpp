// SPDX-License-Identifier: Apache-2.0
#pragma once

// Reading and rounding: the reference reads any element type, computes in double and rounds once,
// when a result is stored.

#include "kernels/bfloat16.hpp"
#include "kernels/types.hpp"

#include <type_traits>

namespace evener::kernels::reference {

constexpr double load(double value) {
    return value;
}
constexpr double load(float value) {
    return value;
}
constexpr double load(BFloat16 value) {
    return to_float(value);
}

template <class T>
constexpr T round_to(double value) {
    if constexpr (std::is_same_v<T, BFloat16>)
        return to_bfloat16(static_cast<float>(value));
    else
        return static_cast<T>(value);
}

/// Type of what the contracts call float32 beside T: statistics, losses, gradients of parameters.
/// T = double exists only for finite differences, and then these are double as well.
template <class T>
using Wide = std::conditional_t<std::is_same_v<T, double>, double, float>;

} // namespace evener::kernels::reference
