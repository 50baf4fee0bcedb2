// SPDX-License-Identifier: Apache-2.0

// Causal attention forward on tensor cores (online softmax over blocks of keys, Dao 2022).

#include "kernels/cuda/access.cuh"
#include "kernels/cuda/attention_general.hpp"
#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/operations.hpp"

namespace evener::kernels::cuda {
namespace {

/// A block computes `queries` rows of one head over blocks of `keys` keys.
template <int Size, int RowTiles, int Keys>
struct Forward {
    static constexpr int size = Size;
    static constexpr int row_tiles = RowTiles; ///< of 16 queries, per warp
    static constexpr int warp_queries = 16 * row_tiles;
    static constexpr int queries = tile_warps * warp_queries;
    static constexpr int keys = Keys;
    static constexpr int stride = tile_stride(size);
    static constexpr int shared_bytes = (queries + 4 * keys) * stride * 2;
};

/// Largest score (times log2 e) and sum of exponentials so far, of rows g and g + 8 of each tile of
/// 16; the sums are those of the lane's own columns.
template <int M>
struct RunningSoftmax {
    float top[M][2];
    float total[M][2];
};

/// Scores become -infinity where the key comes after the query. `row` and `col` are the position of
/// the warp's first query and the block's first key.
template <int M, int N>
__device__ __forceinline__ void mask(float (&s)[M][N][4], int row, int col) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int n = 0; n < N; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                int const query = row + m * 16 + e / 2 * 8 + lane() / 4;
                int const key = col + n * 8 + lane() % 4 * 2 + e % 2;
                if (key > query)
                    s[m][n][e] = -INFINITY;
            }
}

/// Turns scores into weights exp(score - top) and rescales what was summed under the former top.
template <int M, int N, int O>
__device__ __forceinline__ void exponentiate(float (&s)[M][N][4], float (&o)[M][O][4],
                                             RunningSoftmax<M>& softmax, float scale2) {
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float top = softmax.top[m][half];
#pragma unroll
            for (int n = 0; n < N; ++n)
                top = fmaxf(top, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]) * scale2);
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 1));
            top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, 2));
            float const fade = exp2_approximate(softmax.top[m][half] - top);
            softmax.top[m][half] = top;
            float total = softmax.total[m][half] * fade;
#pragma unroll
            for (int n = 0; n < N; ++n)
#pragma unroll
                for (int e = 2 * half; e < 2 * half + 2; ++e) {
                    s[m][n][e] = exp2_approximate(s[m][n][e] * scale2 - top);
                    total += s[m][n][e];
                }
            softmax.total[m][half] = total;
#pragma unroll
            for (int n = 0; n < O; ++n) {
                o[m][n][2 * half] *= fade;
                o[m][n][2 * half + 1] *= fade;
            }
        }
}

// One pair (query, key) costs 4 head_size flops. A block reads its queries once and all keys and
// values up to its last query once, 4 head_size bytes per key for 128 pairs: 128 flops per byte,
// mostly from the second-level cache, since blocks of one head run side by side; from memory come
// qkv once and go o and lse. Bound: tensor cores beside shared memory. A warp reads keys and
// values of a block of keys once for its 32 queries and those queries again: 0.75 of the time of
// the mma on sm_80 (heads of 64: 0.63), and 1.5 (1.25) times it on sm_90 if mma.sync had all of
// the rate of wgmma there. Two blocks per multiprocessor (8 warps), limited by registers: the
// sums of 32 x head_size and the scores of 32 x keys lie in them.
// resources: attention_forward_kernel<Forward<64, 2, 64>>: 128 x 240 registers, 55296 B, 2 blocks
// resources: attention_forward_kernel<Forward<96, 2, 32>>: 128 x 216 registers, 53248 B, 2 blocks
// resources: attention_forward_kernel<Forward<128, 2, 32>>: 128 x 255 registers, 69632 B, 2 blocks
static_assert(Forward<64, 2, 64>::shared_bytes == 55296);
static_assert(Forward<96, 2, 32>::shared_bytes == 53248);
static_assert(Forward<128, 2, 32>::shared_bytes == 69632);

template <class Tiles>
__global__ void __launch_bounds__(tile_threads, 2)
    attention_forward_kernel(bf16 const* __restrict__ qkv, bf16* __restrict__ o,
                             float* __restrict__ lse, AttentionSizes s) {
    constexpr int M = Tiles::row_tiles;
    EVENER_SHARED_DYNAMIC(bf16, shared);
    bf16* const q_tile = shared;
    bf16* const k_tiles = q_tile + Tiles::queries * Tiles::stride;
    bf16* const v_tiles = k_tiles + 2 * Tiles::keys * Tiles::stride;

    TileIndex const at{static_cast<int>(blockIdx.x), s.length, Tiles::queries, s.query_heads};
    int const block_query0 = (at.tiles - 1 - at.tile) * Tiles::queries; // the longest first
    SequenceHeads<bf16 const> const heads{qkv, s, at.sequence};
    auto const k = heads.key(at.head / s.group);
    auto const v = heads.value(at.head / s.group);
    auto const copy_keys = [&](int j) {
        int const offset = j % 2 * Tiles::keys * Tiles::stride;
        copy_tile<Tiles::keys, Tiles::size>(k_tiles + offset, k, j * Tiles::keys, s.length,
                                            s.head_size);
        copy_tile<Tiles::keys, Tiles::size>(v_tiles + offset, v, j * Tiles::keys, s.length,
                                            s.head_size);
        cp_async_commit();
    };

    copy_tile<Tiles::queries, Tiles::size>(q_tile, heads.query(at.head), block_query0, s.length,
                                           s.head_size);
    copy_keys(0);
    float acc[M][Tiles::size / 8][4] = {};
    RunningSoftmax<M> softmax;
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            softmax.top[m][half] = -INFINITY;
            softmax.total[m][half] = 0;
        }
    int const query0 = block_query0 + warp() * Tiles::warp_queries; // the warp's first
    bf16* const q_rows = q_tile + warp() * Tiles::warp_queries * Tiles::stride;
    int const blocks =
        (min(block_query0 + Tiles::queries, s.length) + Tiles::keys - 1) / Tiles::keys;
    for (int j = 0; j < blocks; ++j) {
        cp_async_wait<0>();
        __syncthreads(); // block j is there, and block j - 1 has been used by all
        if (j + 1 < blocks)
            copy_keys(j + 1);
        int const key0 = j * Tiles::keys;
        if (key0 >= query0 + Tiles::warp_queries)
            continue; // after all queries of this warp
        int const offset = j % 2 * Tiles::keys * Tiles::stride;
        float scores[M][Tiles::keys / 8][4] = {};
        multiply<Tiles::size>(scores, LeftInTile<Tiles::size>{q_rows}, k_tiles + offset);
        if (key0 + Tiles::keys - 1 > query0)
            mask(scores, query0, key0);
        exponentiate(scores, acc, softmax, s.scale * log2_of_e);
        add_weighted<Tiles::size>(acc, scores, v_tiles + offset);
    }

    std::int64_t const row0 = at.sequence * s.length;
    float factor[M][2];
#pragma unroll
    for (int m = 0; m < M; ++m)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float total = softmax.total[m][half];
            total += __shfl_xor_sync(0xffffffffu, total, 1);
            total += __shfl_xor_sync(0xffffffffu, total, 2);
            factor[m][half] = 1 / total;
            int const query = query0 + m * 16 + half * 8 + lane() / 4;
            if (lane() % 4 == 0 && query < s.length)
                lse[(row0 + query) * s.query_heads + at.head] =
                    softmax.top[m][half] / log2_of_e + logf(total);
        }
    store_rows<Tiles::size>(acc, factor, q_rows, output_rows(o, s, at.sequence, at.head), query0,
                            s.length, s.head_size);
}

template <class Tiles>
void launch(AttentionShape const& shape, Operands in, cudaStream_t stream) {
    using O = AttentionOperand;
    AttentionSizes const s = sizes_of(shape);
    auto const blocks = static_cast<unsigned>(tile_count(shape, Tiles::queries, shape.query_heads));
    EVENER_LAUNCH(attention_forward_kernel<Tiles>, dim3(blocks), dim3(tile_threads),
                  Tiles::shared_bytes, stream, in.at<bf16>(O::qkv), in.at<bf16>(O::o),
                  in.at<float>(O::lse), s);
}

using Launch = void (*)(AttentionShape const&, Operands, cudaStream_t);

/// The smallest tiles that hold the heads.
Launch launch_for(std::int64_t head_size) {
    if (head_size <= 64)
        return launch<Forward<64, 2, 64>>;
    if (head_size <= 96)
        return launch<Forward<96, 2, 32>>;
    return launch<Forward<128, 2, 32>>;
}

} // namespace

OperationPtr make_attention(AttentionShape const& shape, Context const& context) {
    require_countable(shape);
    bool const tiled = fits_tiles(shape) && context.has_bfloat16();
    return make_operation([shape, tiled](Operands in, std::byte*, cudaStream_t stream) {
        using O = AttentionOperand;
        if (shape.sequences * shape.sequence_length * shape.query_heads == 0)
            return; // o and lse are empty
        if (tiled && is_aligned(in.at<bf16>(O::qkv), 16) && is_aligned(in.at<bf16>(O::o), 16))
            launch_for(shape.head_size)(shape, in, stream);
        else
            attention_general(shape, in, stream);
    });
}

} // namespace evener::kernels::cuda
