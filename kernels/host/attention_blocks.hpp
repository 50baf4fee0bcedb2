// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the forward and the backward pass of attention share. Both go over blocks of 64 queries by
// 64 keys and hold scores transposed, [keys, queries]: one vector is 16 queries of one key, so that
// maxima, sums and scales of a query need no step across lanes. Head sizes are padded with zeros to
// a multiple of 32; keys and queries beyond the end of a sequence are zero rows.

#include "kernels/attention.hpp"
#include "kernels/host/block_products.hpp"
#include "kernels/host/operation.hpp"
#include "kernels/host/simd.hpp"
#include "kernels/host/transpose.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace evener::kernels::host {

inline constexpr std::int64_t block = 64;             ///< queries, and keys
inline constexpr std::int64_t groups = block / lanes; ///< vectors of queries in a block
/// Added to the row length of transposed matrices, so that a column does not fall into one cache
/// set.
inline constexpr std::int64_t skew = 32;

inline std::int64_t round_up(std::int64_t value, std::int64_t unit) {
    return (value + unit - 1) / unit * unit;
}

/// Sizes and offsets in elements.
struct AttentionLayout {
    explicit AttentionLayout(AttentionShape const& s)
        : length{s.sequence_length}, padded_length{round_up(length, block)}, size{s.head_size},
          padded_size{round_up(size, 32)}, query_heads{s.query_heads}, key_heads{s.key_heads},
          group{key_heads > 0 ? query_heads / key_heads : 0}, cols{(query_heads + 2 * key_heads) *
                                                                   size},
          out_cols{query_heads * size}, scale{size > 0 ? 1 / std::sqrt(static_cast<float>(size))
                                                       : 0} {}

    std::int64_t query(std::int64_t head) const { return head * size; }
    std::int64_t key(std::int64_t key_head) const { return (query_heads + key_head) * size; }
    std::int64_t value(std::int64_t key_head) const {
        return (query_heads + key_heads + key_head) * size;
    }

    std::int64_t length, padded_length, size, padded_size, query_heads, key_heads, group;
    std::int64_t cols;     ///< of a row of qkv
    std::int64_t out_cols; ///< of a row of o
    float scale;
};

/// A head's columns of some rows of a projection.
template <class T>
struct HeadRows {
    T* first;
    std::int64_t stride;
    std::int64_t rows; ///< those that exist, at most as many as are asked for
};

/// Asks for the rows' cache lines: a row is a few lines, pages apart from the next one, which no
/// hardware prefetcher follows.
enum class Access { read, write };
template <Access access, class T>
void prefetch_rows(HeadRows<T> rows, AttentionLayout const& at) {
    std::int64_t const bytes = at.size * static_cast<std::int64_t>(sizeof(T));
    for (std::int64_t r = 0; r < std::min(rows.rows, block); ++r)
        for (std::int64_t b = 0; b < bytes; b += 64)
            __builtin_prefetch(reinterpret_cast<std::byte const*>(rows.first + r * rows.stride) + b,
                               access == Access::write, 2);
}

/// dst[count, padded_size] = the rows, converted and padded with zeros.
template <class T, class E>
void copy_rows(HeadRows<T const> src, AttentionLayout const& at, std::int64_t count, E* dst) {
    for (std::int64_t r = 0; r < count; ++r) {
        E* const out = dst + r * at.padded_size;
        std::int64_t const size = r < src.rows ? at.size : 0;
        T const* const in = src.first + r * src.stride;
        over(0, size, [&](auto c, auto part) {
            if constexpr (std::is_same_v<T, E> && std::is_same_v<decltype(part), Whole>)
                std::memcpy(out + c, in + c, lanes * sizeof(E));
            else
                store(out + c, load(in + c, part), part);
        });
        std::memset(static_cast<void*>(out + size), 0,
                    static_cast<std::size_t>(at.padded_size - size) * sizeof(E));
    }
}

/// panel = the transpose of rows[block, cols] as the right side of a product ([cols, block]).
template <class E>
void transposed_panel(E const* rows, std::int64_t cols, E* panel) {
    transpose_words(rows, block, cols * static_cast<std::int64_t>(sizeof(E)) / 4, panel, block);
}

/// dst[cols, dst_stride] = the transpose of rows[block, cols] as the left side of a product.
inline void transpose_rows(float const* rows, std::int64_t cols, float* dst,
                           std::int64_t dst_stride) {
    transpose_words(rows, block, cols, dst, dst_stride);
}
inline void transpose_rows(BFloat16 const* rows, std::int64_t cols, BFloat16* dst,
                           std::int64_t dst_stride) {
    transpose_halves({rows, cols}, block, cols, {dst, dst_stride});
}

/// rows[block, cols] as the right side of a product: for float32 the rows themselves.
inline float const* row_panel(float const* rows, std::int64_t, float*) {
    return rows;
}
inline BFloat16 const* row_panel(BFloat16 const* rows, std::int64_t cols, BFloat16* panel) {
    for (std::int64_t r = 0; r < block; r += 2) {
        for (std::int64_t c = 0; c < cols; c += lanes) {
            auto const even = load_bytes<Halves>(rows + r * cols + c);
            auto const odd = load_bytes<Halves>(rows + (r + 1) * cols + c);
            Words const pair = zero_extend(even) | (zero_extend(odd) << 16);
            store_bytes(panel + r * cols + 2 * c, pair);
        }
    }
    return panel;
}

/// Rows `row` (even) and row + 1, columns from `col` on, of a panel of `block` columns.
inline void store_pair(float* panel, std::int64_t row, std::int64_t col, Floats even, Floats odd) {
    store(panel + row * block + col, even);
    store(panel + (row + 1) * block + col, odd);
}
inline void store_pair(BFloat16* panel, std::int64_t row, std::int64_t col, Floats even,
                       Floats odd) {
    Words const pair = (round_upper(even) >> 16) | (round_upper(odd) & 0xffff0000u);
    store_bytes(panel + row * block + 2 * col, pair);
}

/// Without the care for signalling NaNs, which no arithmetic makes.
inline void store_fast(float* dst, Floats value) {
    store(dst, value);
}
inline void store_fast(BFloat16* dst, Floats value) {
    store_bytes(dst, truncate(round_upper(value) >> 16));
}

/// dst rows = (columns of src[padded_size, block]) * scale[column].
template <class T>
void write_transposed(float const* src, AttentionLayout const& at, float const* scale,
                      float* scratch, HeadRows<T> dst) {
    transpose_words(src, at.padded_size, block, scratch, at.padded_size);
    for (std::int64_t r = 0; r < dst.rows; ++r) {
        float const* const in = scratch + r * at.padded_size;
        T* const out = dst.first + r * dst.stride;
        over(0, at.size,
             [&](auto c, auto part) { store(out + c, load(in + c, part) * scale[r], part); });
    }
}

/// dst rows = src[rows, padded_size] * scale.
template <class T>
void write_rows(float const* src, AttentionLayout const& at, float scale, HeadRows<T> dst) {
    for (std::int64_t r = 0; r < dst.rows; ++r) {
        float const* const in = src + r * at.padded_size;
        T* const out = dst.first + r * dst.stride;
        over(0, at.size,
             [&](auto c, auto part) { store(out + c, load(in + c, part) * scale, part); });
    }
}

/// Lanes whose query (first + lane) may see the key: all ones, else zeros.
inline Ints visible(std::int64_t first_query, std::int64_t key) {
    Ints query;
    for (std::int32_t lane = 0; lane < lanes; ++lane)
        query[lane] = lane;
    return query >= static_cast<std::int32_t>(key - first_query);
}

/// Makes the operation with the engine that this CPU and type call for: body.operator()<T,
/// Engine>().
template <class Body>
decltype(auto) with_engine(Element type, BlockProducts products, Body&& body) {
    if (type == Element::float32)
        return body.template operator()<float, FloatBlocks>();
#if defined(__AVX512F__)
    if (products == BlockProducts::amx)
        return body.template operator()<BFloat16, AmxBlocks>();
    if (products == BlockProducts::avx512_bf16)
        return body.template operator()<BFloat16, DotBlocks>();
#endif
    static_cast<void>(products);
    return body.template operator()<BFloat16, FloatBlocks>();
}

} // namespace evener::kernels::host
