// SPDX-License-Identifier: Apache-2.0
#pragma once

// Device functions that need no other thread: fast mathematics (here exact to rounding), bit
// functions, loads and stores with cache hints, fences. Fences order nothing: memory of one process
// is ordered anyway, so a missing fence does not show.

#include <strings.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier): CUDA's names
using std::max;
using std::min;

inline void __threadfence() {}
inline void __threadfence_block() {}
inline void __threadfence_system() {}

template <class T>
T __ldg(T const* address) {
    return *address;
}
template <class T>
T __ldcs(T const* address) {
    return *address;
}
template <class T>
T __ldcg(T const* address) {
    return *address;
}
template <class T>
void __stcs(T* address, T value) {
    *address = value;
}
template <class T>
void __stcg(T* address, T value) {
    *address = value;
}

inline float __expf(float x) {
    return std::exp(x);
}
inline float __logf(float x) {
    return std::log(x);
}
inline float __log2f(float x) {
    return std::log2(x);
}
inline float __sinf(float x) {
    return std::sin(x);
}
inline float __cosf(float x) {
    return std::cos(x);
}
inline float __powf(float x, float y) {
    return std::pow(x, y);
}
inline float rsqrtf(float x) {
    return 1.0f / std::sqrt(x);
}
inline double rsqrt(double x) {
    return 1.0 / std::sqrt(x);
}
inline float __frsqrt_rn(float x) {
    return static_cast<float>(1.0 / std::sqrt(static_cast<double>(x)));
}
inline float __fsqrt_rn(float x) {
    return std::sqrt(x);
}
inline float __frcp_rn(float x) {
    return 1.0f / x;
}
inline float __fdividef(float x, float y) {
    return x / y;
}
inline float __fdiv_rn(float x, float y) {
    return x / y;
}
inline float __fmaf_rn(float x, float y, float z) {
    return std::fma(x, y, z);
}
inline float __fadd_rn(float x, float y) {
    return x + y;
}
inline float __fsub_rn(float x, float y) {
    return x - y;
}
inline float __fmul_rn(float x, float y) {
    return x * y;
}
inline double __dadd_rn(double x, double y) {
    return x + y;
}
inline double __dmul_rn(double x, double y) {
    return x * y;
}
inline double __fma_rn(double x, double y, double z) {
    return std::fma(x, y, z);
}

inline unsigned __float_as_uint(float x) {
    return std::bit_cast<unsigned>(x);
}
inline float __uint_as_float(unsigned x) {
    return std::bit_cast<float>(x);
}
inline int __float_as_int(float x) {
    return std::bit_cast<int>(x);
}
inline float __int_as_float(int x) {
    return std::bit_cast<float>(x);
}
inline int __popc(unsigned x) {
    return std::popcount(x);
}
inline int __clz(int x) {
    return std::countl_zero(static_cast<unsigned>(x));
}
inline int __ffs(int x) {
    return ::ffs(x);
}
inline unsigned __umulhi(unsigned x, unsigned y) {
    return static_cast<unsigned>(std::uint64_t{x} * y >> 32);
}
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)
