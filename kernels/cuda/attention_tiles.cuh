// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the tensor-core attention kernels share: where heads lie, tiles of a head in shared memory
// and products of such tiles. A block has 4 warps; a tile is [rows][size + 8] bfloat16, where the
// 8 unused columns make a row an odd number of 16-byte chunks, so that the 8 rows an ldmatrix
// phase reads fall into different banks. `size` is the head size rounded up to 64, 96 or 128;
// columns from head_size on hold zeros. Fragments are those of mma m16n8k16: in a lane with g =
// lane / 4 and t = lane % 4, elements {0, 1} of a 16x8 result are row g, columns 2t and 2t + 1,
// and elements {2, 3} the same columns of row g + 8.

#include "kernels/cuda/attention_sizes.cuh"
#include "kernels/cuda/mma.hpp"

namespace evener::kernels::cuda {

inline constexpr int tile_threads = 128;
inline constexpr int tile_warps = tile_threads / 32;

__device__ __forceinline__ int lane() {
    return static_cast<int>(threadIdx.x % 32);
}
__device__ __forceinline__ int warp() {
    return static_cast<int>(threadIdx.x / 32);
}
constexpr int tile_stride(int size) {
    return size + 8;
}

/// Starts copying rows [begin, begin + Rows) of a head; rows from `end` on and columns from
/// head_size on become zero.
template <int Rows, int Size>
__device__ __forceinline__ void copy_tile(bf16* tile, HeadRows<bf16 const> src, int begin, int end,
                                          int head_size) {
    constexpr int chunks = Size / 8;
    static_assert(Rows * chunks % tile_threads == 0);
#pragma unroll
    for (int step = 0; step < Rows * chunks / tile_threads; ++step) {
        int const c = step * tile_threads + static_cast<int>(threadIdx.x);
        int const r = c / chunks;
        int const k = c % chunks * 8;
        bool const there = begin + r < end && k < head_size;
        cp_async16(tile + r * tile_stride(Size) + k,
                   src.first + (there ? (begin + r) * src.stride + k : 0), there);
    }
}

/// Left factors of multiply: fragments for columns [k, k + 16) of rows [16 m, 16 m + 16) of a tile,
/// read whenever they are needed ...
template <int Size>
struct LeftInTile {
    bf16 const* rows;

    __device__ __forceinline__ void get(std::uint32_t (&a)[4], int m, int k) const {
        ldmatrix_x4(a, rows + (m * 16 + lane() % 16) * tile_stride(Size) + k + lane() / 16 * 8);
    }
};

/// ... or held in registers, of 16 rows.
template <int Size>
struct LeftInRegisters {
    std::uint32_t fragments[Size / 16][4];

    __device__ __forceinline__ void load(bf16 const* rows) {
#pragma unroll
        for (int k = 0; k < Size; k += 16)
            LeftInTile<Size>{rows}.get(fragments[k / 16], 0, k);
    }
    __device__ __forceinline__ void get(std::uint32_t (&a)[4], int, int k) const {
#pragma unroll
        for (int i = 0; i < 4; ++i)
            a[i] = fragments[k / 16][i];
    }
};

/// acc[m] += left rows [16 m, 16 m + 16) x (rows of the tile `right`)^T.
template <int Size, class Left, int M, int N>
__device__ __forceinline__ void multiply(float (&acc)[M][N][4], Left const& left,
                                         bf16 const* right) {
    static_assert(N % 2 == 0);
#pragma unroll
    for (int k = 0; k < Size; k += 16) {
        std::uint32_t a[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m)
            left.get(a[m], m, k);
#pragma unroll
        for (int n = 0; n < N; n += 2) {
            std::uint32_t b[4]; // two blocks of 8 rows, both halves of k
            ldmatrix_x4(b, right + (n * 8 + lane() / 16 * 8 + lane() % 8) * tile_stride(Size) + k +
                               lane() / 8 % 2 * 8);
            std::uint32_t const low[2] = {b[0], b[1]};
            std::uint32_t const high[2] = {b[2], b[3]};
#pragma unroll
            for (int m = 0; m < M; ++m) {
                mma_m16n8k16(acc[m][n], a[m], low, acc[m][n]);
                mma_m16n8k16(acc[m][n + 1], a[m], high, acc[m][n + 1]);
            }
        }
    }
}

/// acc[m] += weights[m] (16 x 8 K, rounded to bfloat16) x tile[8 K][Size].
template <int Size, int M, int K>
__device__ __forceinline__ void add_weighted(float (&acc)[M][Size / 8][4],
                                             float const (&weights)[M][K][4], bf16 const* tile) {
    static_assert(K % 2 == 0);
#pragma unroll
    for (int k = 0; k < K; k += 2) {
        std::uint32_t a[M][4];
#pragma unroll
        for (int m = 0; m < M; ++m) {
            auto const& near = weights[m][k];
            auto const& far = weights[m][k + 1];
            a[m][0] = pack_bf16(near[0], near[1]);
            a[m][1] = pack_bf16(near[2], near[3]);
            a[m][2] = pack_bf16(far[0], far[1]);
            a[m][3] = pack_bf16(far[2], far[3]);
        }
#pragma unroll
        for (int n = 0; n < Size / 8; n += 2) {
            std::uint32_t b[4]; // both halves of k, two blocks of 8 columns
            ldmatrix_x4_trans(b, tile + (k * 8 + lane() % 16) * tile_stride(Size) + n * 8 +
                                     lane() / 16 * 8);
            std::uint32_t const low[2] = {b[0], b[1]};
            std::uint32_t const high[2] = {b[2], b[3]};
#pragma unroll
            for (int m = 0; m < M; ++m) {
                mma_m16n8k16(acc[m][n], a[m], low, acc[m][n]);
                mma_m16n8k16(acc[m][n + 1], a[m], high, acc[m][n + 1]);
            }
        }
    }
}

/// Writes the warp's 16 M rows times `factor` to rows [begin, end) of a head, in 16-byte pieces by
/// way of `rows`, a part of a tile that no other warp reads any more.
template <int Size, int M>
__device__ __forceinline__ void store_rows(float const (&acc)[M][Size / 8][4],
                                           float const (&factor)[M][2], bf16* rows,
                                           HeadRows<bf16> dst, int begin, int end, int head_size) {
    constexpr int chunks = Size / 8;
    __syncwarp(); // all lanes have read what lay in `rows`
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int n = 0; n < chunks; ++n) {
                bf16* const at = rows + (m * 16 + half * 8 + lane() / 4) * tile_stride(Size) +
                                 n * 8 + lane() % 4 * 2;
                *reinterpret_cast<std::uint32_t*>(at) =
                    pack_bf16(acc[m][n][2 * half] * factor[m][half],
                              acc[m][n][2 * half + 1] * factor[m][half]);
            }
    __syncwarp();
#pragma unroll
    for (int step = 0; step < M * 16 * chunks / 32; ++step) {
        int const c = step * 32 + lane();
        int const r = c / chunks;
        int const k = c % chunks * 8;
        if (begin + r < end && k < head_size)
            *reinterpret_cast<uint4*>(dst.first + (begin + r) * dst.stride + k) =
                *reinterpret_cast<uint4 const*>(rows + r * tile_stride(Size) + k);
    }
}

} // namespace evener::kernels::cuda
