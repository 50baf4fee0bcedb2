// SPDX-License-Identifier: Apache-2.0
#pragma once

// How kernels read and write rows: as float values, N neighbouring elements per thread, 16 bytes at
// once where addresses allow. Which thread has which elements depends on sizes alone, never on
// addresses, so that sums have one order.

#include "kernels/cuda/gpu.hpp"
#include "kernels/types.hpp"

#include <cstdint>
#include <cstring>
#include <type_traits>

namespace evener::kernels::cuda {

/// Calls `body` with a value of the element's type on the device and returns what it returns.
template <class Body>
decltype(auto) with_element(Element type, Body&& body) {
    if (type == Element::float32)
        return body(float{});
    return body(bf16{});
}

/// N elements at once, or one by one where a pointer is not aligned to all of them.
template <int N, bool together>
struct Access {
    static constexpr int size = N;
    static constexpr bool at_once = together;
};
using Single = Access<1, true>;

/// Elements of 16 bytes.
template <class T>
inline constexpr int elements_at_once = 16 / static_cast<int>(sizeof(T));

__device__ __forceinline__ float to_float(float value) {
    return value;
}
__device__ __forceinline__ float to_float(bf16 value) {
    return __bfloat162float(value);
}

template <class T>
__device__ __forceinline__ T round_to(float value) {
    if constexpr (std::is_same_v<T, float>)
        return value;
    else
        return __float2bfloat16(value);
}

/// The bytes of N elements, moved in accesses of at most 16 bytes.
template <class T, int N>
struct Pack {
    static constexpr int bytes = N * static_cast<int>(sizeof(T));
    using Word =
        std::conditional_t<bytes % 16 == 0, uint4, std::conditional_t<bytes % 8 == 0, uint2, T>>;
    static constexpr int words = bytes / static_cast<int>(sizeof(Word));
    Word word[words];
};

template <class A, class T>
__device__ __forceinline__ void load(T const* src, float (&value)[A::size]) {
    if constexpr (A::size == 1 || !A::at_once) {
#pragma unroll
        for (int i = 0; i < A::size; ++i)
            value[i] = to_float(src[i]);
    } else {
        Pack<T, A::size> pack;
        using Word = typename Pack<T, A::size>::Word;
#pragma unroll
        for (int w = 0; w < pack.words; ++w)
            pack.word[w] = reinterpret_cast<Word const*>(src)[w];
        T element[A::size];
        memcpy(static_cast<void*>(element), &pack, sizeof pack);
#pragma unroll
        for (int i = 0; i < A::size; ++i)
            value[i] = to_float(element[i]);
    }
}

template <class A, class T>
__device__ __forceinline__ void store(T* dst, float const (&value)[A::size]) {
    if constexpr (A::size == 1 || !A::at_once) {
#pragma unroll
        for (int i = 0; i < A::size; ++i)
            dst[i] = round_to<T>(value[i]);
    } else {
        T element[A::size];
#pragma unroll
        for (int i = 0; i < A::size; ++i)
            element[i] = round_to<T>(value[i]);
        Pack<T, A::size> pack;
        using Word = typename Pack<T, A::size>::Word;
        memcpy(&pack, element, sizeof pack);
#pragma unroll
        for (int w = 0; w < pack.words; ++w)
            reinterpret_cast<Word*>(dst)[w] = pack.word[w];
    }
}

inline bool is_aligned(void const* pointer, int bytes) {
    return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0;
}

/// Calls body(Access) for rows of `cols` elements of T that start at these pointers (null: not
/// there): 16 bytes per thread where the size allows, single elements else.
template <class T, class Body, class... Pointers>
void with_row_access(std::int64_t cols, Body&& body, Pointers const*... pointers) {
    constexpr int n = elements_at_once<T>;
    if (cols % n != 0)
        body(Single{});
    else if ((is_aligned(pointers, 16) && ...))
        body(Access<n, true>{});
    else
        body(Access<n, false>{});
}

constexpr std::int64_t div_up(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

/// Threads of a block that shares `items` items: whole warps, at most 256.
inline unsigned threads_for(std::int64_t items) {
    std::int64_t const warps = div_up(items, 32);
    return static_cast<unsigned>(32 * (warps < 1 ? 1 : warps > 8 ? 8 : warps));
}

} // namespace evener::kernels::cuda
