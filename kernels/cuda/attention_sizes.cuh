// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sizes and places of the heads of a fused projection, for the attention kernels and their
// launches. Blocks are numbered in one dimension: tile of rows fastest, then head, then sequence.

#include "kernels/attention.hpp"
#include "kernels/cuda/gpu.hpp"

#include <cmath>

namespace evener::kernels::cuda {

inline constexpr float log2_of_e = 1.4426950408889634f;

/// Sizes of an AttentionShape in the widths kernels compute with.
struct AttentionSizes {
    int length = 0; ///< of a sequence
    int query_heads = 0;
    int key_heads = 0;
    int group = 0; ///< query heads of a key head
    int head_size = 0;
    std::int64_t row = 0; ///< elements of a row of qkv
    float scale = 0;      ///< 1 / sqrt(head_size); 0 for empty heads
};

/// Of a shape with at least one head.
inline AttentionSizes sizes_of(AttentionShape const& shape) {
    AttentionSizes sizes;
    sizes.length = static_cast<int>(shape.sequence_length);
    sizes.query_heads = static_cast<int>(shape.query_heads);
    sizes.key_heads = static_cast<int>(shape.key_heads);
    sizes.group = sizes.query_heads / sizes.key_heads;
    sizes.head_size = static_cast<int>(shape.head_size);
    sizes.row = (shape.query_heads + 2 * shape.key_heads) * shape.head_size;
    if (shape.head_size > 0)
        sizes.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(shape.head_size)));
    return sizes;
}

/// Whether the tensor-core kernels take the shape: bfloat16 heads of whole 16-byte pieces, at most
/// 128 wide. Their pointers must be aligned to 16 bytes as well, which is known when they run; all
/// else takes the general kernels.
inline bool fits_tiles(AttentionShape const& shape) {
    return shape.type == Element::bfloat16 && shape.head_size > 0 && shape.head_size <= 128 &&
           shape.head_size % 8 == 0;
}

/// Rows of one head, `stride` elements apart.
template <class T>
struct HeadRows {
    T* first;
    std::int64_t stride;
};

/// Where the heads of one sequence are; T may be const.
template <class T>
struct SequenceHeads {
    T* rows; ///< of qkv, the sequence's first
    AttentionSizes const& s;

    __device__ SequenceHeads(T* qkv, AttentionSizes const& sizes, std::int64_t sequence)
        : rows{qkv + sequence * sizes.length * sizes.row}, s{sizes} {}
    __device__ HeadRows<T> query(int head) const { return at(head); }
    __device__ HeadRows<T> key(int key_head) const { return at(s.query_heads + key_head); }
    __device__ HeadRows<T> value(int key_head) const {
        return at(s.query_heads + s.key_heads + key_head);
    }

  private:
    __device__ HeadRows<T> at(int head) const {
        return {rows + std::int64_t{head} * s.head_size, s.row};
    }
};

/// Rows of one query head of one sequence in o or d_o, [rows, query_heads * head_size].
template <class T>
__device__ __forceinline__ HeadRows<T> output_rows(T* o, AttentionSizes const& s,
                                                   std::int64_t sequence, int head) {
    std::int64_t const row = std::int64_t{s.query_heads} * s.head_size;
    return {o + sequence * s.length * row + std::int64_t{head} * s.head_size, row};
}

/// The tile, head and sequence of a block.
struct TileIndex {
    int tile = 0;
    int tiles = 0;
    int head = 0;
    std::int64_t sequence = 0;

    __device__ TileIndex(int block, int length, int tile_rows, int heads)
        : tiles{(length + tile_rows - 1) / tile_rows} {
        tile = block % tiles;
        int const rest = block / tiles;
        head = rest % heads;
        sequence = rest / heads;
    }
};

inline std::int64_t tile_count(AttentionShape const& shape, std::int64_t tile_rows,
                               std::int64_t heads) {
    return (shape.sequence_length + tile_rows - 1) / tile_rows * heads * shape.sequences;
}

} // namespace evener::kernels::cuda
