// SPDX-License-Identifier: Apache-2.0
#pragma once

// Vectors of floats as wide as the level this plug-in is compiled for, with loads and stores of
// both element types. Sums have a fixed order: 4 partial vectors, then a tree over the lanes.

#include "kernels/bfloat16.hpp"

#include <cstdint>
#include <cstring>

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace evener::kernels::host {

#if defined(__AVX512F__)
inline constexpr std::int64_t lanes = 16;
#elif defined(__AVX__)
inline constexpr std::int64_t lanes = 8;
#else
inline constexpr std::int64_t lanes = 4;
#endif

using Floats [[gnu::vector_size(lanes * 4)]] = float;
using Ints [[gnu::vector_size(lanes * 4)]] = std::int32_t;
using Words [[gnu::vector_size(lanes * 4)]] = std::uint32_t;
using Halves [[gnu::vector_size(lanes * 2)]] = std::uint16_t;

// value - 0 is value, also for -0: the compiler need not subtract.
inline Floats broadcast(float value) {
    return value - Floats{};
}
inline Floats select(Ints mask, Floats yes, Floats no) {
    return mask ? yes : no;
}

template <class V>
V load_bytes(void const* src) {
    V value;
    std::memcpy(&value, src, sizeof value);
    return value;
}
template <class V>
void store_bytes(void* dst, V value) {
    std::memcpy(dst, &value, sizeof value);
}

// max, min: b where either is not a number. zero_extend, truncate: between 16 and 32 bits.
// reciprocal, square_root: to 2 units in the last place.
#if defined(__AVX512F__)

// The forms with a mask of all lanes: g++ 12 warns inside its header for those without.
inline constexpr __mmask16 every = 0xffff;
inline Floats max(Floats a, Floats b) {
    return _mm512_maskz_max_ps(every, a, b);
}
inline Floats min(Floats a, Floats b) {
    return _mm512_maskz_min_ps(every, a, b);
}
inline Words zero_extend(Halves bits) {
    return (Words)_mm512_maskz_cvtepu16_epi32(every, (__m256i)bits);
}
inline Halves truncate(Words bits) {
    return (Halves)_mm512_maskz_cvtepi32_epi16(every, (__m512i)bits);
}

/// Estimates to 14 bits and one step of Newton's method: a fifth of the time of the exact ones.
inline Floats reciprocal(Floats x) {
    Floats const estimate = _mm512_maskz_rcp14_ps(every, x);
    return estimate * (2.0f - x * estimate);
}
/// Of x >= 0.
inline Floats square_root(Floats x) {
    Floats const estimate = _mm512_maskz_rsqrt14_ps(every, max(x, broadcast(1e-37f)));
    Floats const root = x * estimate;
    return root + 0.5f * root * (1.0f - root * estimate);
}

#else

inline Floats max(Floats a, Floats b) {
    return a > b ? a : b;
}
inline Floats min(Floats a, Floats b) {
    return a < b ? a : b;
}
inline Words zero_extend(Halves bits) {
    return __builtin_convertvector(bits, Words);
}
inline Halves truncate(Words bits) {
    return __builtin_convertvector(bits, Halves);
}
inline Floats reciprocal(Floats x) {
    return 1.0f / x;
}
inline Floats square_root(Floats x) {
    Floats root;
    for (std::int64_t i = 0; i < lanes; ++i) // becomes one instruction
        root[i] = __builtin_sqrtf(x[i]);
    return root;
}

#endif

inline Floats widen(Halves bits) {
    return reinterpret_cast<Floats>(zero_extend(bits) << 16);
}

/// Rounds to nearest even; the result is in the upper 16 bits of each lane, the lower ones are
/// noise. Quiet NaNs stay NaN.
inline Words round_upper(Floats value) {
    auto const bits = reinterpret_cast<Words>(value);
    return bits + 0x7fffu + ((bits >> 16) & 1u);
}

/// Any NaN stays NaN.
inline Halves narrow(Floats value) {
    Words const rounded = round_upper(value) >> 16;
    return truncate(value == value ? rounded : Words{} + 0x7fc0u);
}

/// How much of a vector a loop step covers: all lanes, or the first `count` of them.
struct Whole {};
struct Part {
    std::int64_t count;
};

inline Floats load(float const* src, Whole = {}) {
    return load_bytes<Floats>(src);
}
inline Floats load(BFloat16 const* src, Whole = {}) {
    return widen(load_bytes<Halves>(src));
}
inline void store(float* dst, Floats value, Whole = {}) {
    std::memcpy(dst, &value, sizeof value);
}
inline void store(BFloat16* dst, Floats value, Whole = {}) {
    store_bytes(dst, narrow(value));
}

template <class T>
Floats load(T const* src, Part part) {
    T buffer[lanes] = {};
    for (std::int64_t i = 0; i < part.count; ++i)
        buffer[i] = src[i];
    return load(buffer);
}
template <class T>
void store(T* dst, Floats value, Part part) {
    T buffer[lanes];
    store(buffer, value);
    for (std::int64_t i = 0; i < part.count; ++i)
        dst[i] = buffer[i];
}

/// Calls step(i, Whole or Part) for the vectors of [begin, end).
template <class Step>
void over(std::int64_t begin, std::int64_t end, Step&& step) {
    std::int64_t i = begin;
    for (; i + lanes <= end; i += lanes)
        step(i, Whole{});
    if (i < end)
        step(i, Part{end - i});
}

inline float sum(Floats value) {
    float part[lanes];
    store(part, value);
    for (std::int64_t width = lanes / 2; width > 0; width /= 2)
        for (std::int64_t i = 0; i < width; ++i)
            part[i] += part[i + width];
    return part[0];
}

inline float max(Floats value) {
    float part[lanes];
    store(part, value);
    float top = part[0];
    for (std::int64_t i = 1; i < lanes; ++i)
        top = part[i] > top ? part[i] : top;
    return top;
}

/// Sum of term(i, Whole or Part) over [0, count); a Part's term must be 0 in the other lanes.
template <class Term>
float sum_over(std::int64_t count, Term&& term) {
    Floats partial[4] = {};
    std::int64_t i = 0;
    for (; i + 4 * lanes <= count; i += 4 * lanes)
        for (std::int64_t u = 0; u < 4; ++u)
            partial[u] += term(i + u * lanes, Whole{});
    over(i, count, [&](std::int64_t at, auto part) { partial[0] += term(at, part); });
    return sum((partial[0] + partial[1]) + (partial[2] + partial[3]));
}

/// 2^(n + r) from `shifted` = n + 1.5 * 2^23 and r in [-0.5, 0.5]. The polynomial is the minimax
/// one of degree 6 (relative error 2.6e-9); the low bits of `shifted` hold n and move to the
/// exponent.
inline constexpr float round_shift = 12582912.0f; // 1.5 * 2^23: adding it rounds to an integer
inline Floats exp2_parts(Floats shifted, Floats r) {
    Floats p = broadcast(1.5594677e-4f);
    p = p * r + 1.3406644e-3f;
    p = p * r + 9.6176930e-3f;
    p = p * r + 5.5503106e-2f;
    p = p * r + 2.4022653e-1f;
    p = p * r + 6.9314721e-1f;
    p = p * r + 1.0f;
    auto const exponent = reinterpret_cast<Words>(shifted) << 23;
    return reinterpret_cast<Floats>(reinterpret_cast<Words>(p) + exponent);
}

/// 2^x, exact to 2 units in the last place for x in [-126, 127.49]; beyond, the value at that end
/// (not 0 or infinity). NaN stays NaN.
inline Floats exp2(Floats x) {
    x = max(broadcast(-126.0f), min(broadcast(127.49f), x));
    Floats const shifted = x + round_shift;
    return exp2_parts(shifted, x - (shifted - round_shift));
}

/// 2^x likewise for x <= 127.49, unchecked.
inline Floats exp2_not_above(Floats x) {
    x = max(broadcast(-126.0f), x);
    Floats const shifted = x + round_shift;
    return exp2_parts(shifted, x - (shifted - round_shift));
}

/// e^x likewise, for x in [-87.3, 88.36]; log2(e) is taken in two parts, so that large arguments
/// keep their accuracy.
inline Floats exp(Floats x) {
    constexpr float log2e_high = 1.44269502f;
    constexpr float log2e_low = 1.92596299e-8f;
    x = max(broadcast(-87.3f), min(broadcast(88.36f), x));
    Floats const shifted = x * log2e_high + round_shift;
    Floats const n = shifted - round_shift;
    return exp2_parts(shifted, x * log2e_low + (x * log2e_high - n));
}

} // namespace evener::kernels::host
