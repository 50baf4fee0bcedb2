// SPDX-License-Identifier: Apache-2.0
#pragma once

// Transposes of matrices of 32-bit words and of bfloat16, square by square in registers.

#include "kernels/host/simd.hpp"

#include <array>
#include <cstddef>

namespace evener::kernels::host {

/// Which lanes of two vectors (a: 0 .., b: lanes ..) make the new a (low) and the new b (high) when
/// their lanes are exchanged in runs of `half`.
struct Exchange {
    constexpr explicit Exchange(std::uint32_t half) {
        constexpr auto width = static_cast<std::uint32_t>(lanes);
        for (std::uint32_t p = 0; p < width; ++p) {
            bool const upper = (p & half) != 0;
            low[p] = upper ? width + p - half : p;
            high[p] = upper ? width + p : p + half;
        }
    }
    alignas(64) std::uint32_t low[lanes] = {};
    alignas(64) std::uint32_t high[lanes] = {};
};

template <std::int64_t half>
[[gnu::always_inline]] inline void exchange(Words (&rows)[lanes]) {
    static constexpr Exchange lanes_of{half};
    Words const low = load_bytes<Words>(lanes_of.low);
    Words const high = load_bytes<Words>(lanes_of.high);
#pragma GCC unroll 16
    for (std::int64_t i = 0; i < lanes; ++i) {
        if ((i & half) == 0) {
            Words const a = rows[i];
            Words const b = rows[i + half];
            rows[i] = __builtin_shuffle(a, b, low);
            rows[i + half] = __builtin_shuffle(a, b, high);
        }
    }
}

/// rows -> columns of a square of 32-bit words, by exchanging ever smaller halves.
[[gnu::always_inline]] inline void transpose(Words (&rows)[lanes]) {
    if constexpr (lanes > 8)
        exchange<8>(rows);
    if constexpr (lanes > 4)
        exchange<4>(rows);
    exchange<2>(rows);
    exchange<1>(rows);
}

/// dst[cols, dst_stride] = transpose of src[rows, cols], 32-bit words; both multiples of `lanes`.
inline void transpose_words(void const* src, std::int64_t rows, std::int64_t cols, void* dst,
                            std::int64_t dst_stride) {
    for (std::int64_t c = 0; c < cols; c += lanes) {
        for (std::int64_t r = 0; r < rows; r += lanes) {
            Words square[lanes];
#pragma GCC unroll 16
            for (std::int64_t i = 0; i < lanes; ++i)
                square[i] = load_bytes<Words>(static_cast<std::byte const*>(src) +
                                              ((r + i) * cols + c) * 4);
            transpose(square);
#pragma GCC unroll 16
            for (std::int64_t i = 0; i < lanes; ++i)
                store_bytes(static_cast<std::byte*>(dst) + ((c + i) * dst_stride + r) * 4,
                            square[i]);
        }
    }
}

/// A matrix of which only the first element and the distance of rows are told.
template <class T>
struct Rows {
    T* first;
    std::int64_t stride;
};

using HalfPairs [[gnu::vector_size(lanes * 4)]] = std::uint16_t;

/// Every second of the 16-bit values of two vectors, from `first` on.
template <std::uint16_t first>
HalfPairs every_second(Words a, Words b) {
    static constexpr auto index = [] {
        std::array<std::uint16_t, 2 * lanes> values{};
        for (std::uint16_t i = 0; i < 2 * lanes; ++i)
            values[i] = static_cast<std::uint16_t>(2 * i + first);
        return values;
    }();
    return __builtin_shuffle(reinterpret_cast<HalfPairs>(a), reinterpret_cast<HalfPairs>(b),
                             load_bytes<HalfPairs>(index.data()));
}

/// dst[cols, rows] = transpose of src[rows, cols]; both multiples of 2 * lanes. Whole cache lines
/// are written at a time where lanes are 16.
inline void transpose_halves(Rows<BFloat16 const> src, std::int64_t rows, std::int64_t cols,
                             Rows<BFloat16> dst) {
    for (std::int64_t c = 0; c < cols; c += 2 * lanes) {
        for (std::int64_t r = 0; r < rows; r += 2 * lanes) {
            Words squares[2][lanes]; // a word holds two neighbours of a row
#pragma GCC unroll 2
            for (std::int64_t s = 0; s < 2; ++s) {
#pragma GCC unroll 16
                for (std::int64_t i = 0; i < lanes; ++i)
                    squares[s][i] =
                        load_bytes<Words>(src.first + (r + s * lanes + i) * src.stride + c);
                transpose(squares[s]);
            }
#pragma GCC unroll 16
            for (std::int64_t i = 0; i < lanes; ++i) {
                BFloat16* const out = dst.first + (c + 2 * i) * dst.stride + r;
                store_bytes(out, every_second<0>(squares[0][i], squares[1][i]));
                store_bytes(out + dst.stride, every_second<1>(squares[0][i], squares[1][i]));
            }
        }
    }
}

} // namespace evener::kernels::host
