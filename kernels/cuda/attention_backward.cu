// SPDX-License-Identifier: Apache-2.0

// Causal attention backward on tensor cores in two passes, each recomputing the weights: one over
// blocks of keys for dk and dv, one over blocks of queries for dq. No sums cross blocks, so there
// are no atomics and results repeat to the bit.

#include "kernels/cuda/access.cuh"
#include "kernels/cuda/attention_general.hpp"
#include "kernels/cuda/attention_statistics.cuh"
#include "kernels/cuda/attention_tiles.cuh"
#include "kernels/cuda/operations.hpp"

namespace evener::kernels::cuda {
namespace {

/// Pass over keys: a block owns `keys` keys of one key head and walks over blocks of `queries`.
template <int Size, int Queries>
struct KeyPass {
    static constexpr int size = Size;
    static constexpr int stride = tile_stride(size);
    static constexpr int keys = 16 * tile_warps;
    static constexpr int queries = Queries;
    static constexpr int shared_bytes =
        (2 * keys + 4 * queries) * stride * 2 + 2 * queries * int{sizeof(QueryStatistics)};
};

/// Pass over queries: a block owns `queries` queries of one head and walks over blocks of `keys`.
template <int Size, int Keys>
struct QueryPass {
    static constexpr int size = Size;
    static constexpr int stride = tile_stride(size);
    static constexpr int queries = 16 * tile_warps;
    static constexpr int keys = Keys;
    static constexpr int shared_bytes = (2 * queries + 4 * keys) * stride * 2;
};

/// Pointers of the backward operands. statistics: [sequences, query_heads, padded_length].
struct BackwardPointers {
    bf16 const* qkv;
    bf16 const* d_o;
    QueryStatistics const* statistics;
    bf16* dqkv;
};

/// Scores, transposed (rows are keys, columns queries), become weights exp(score - lse); 0 where
/// the key comes after the query.
template <int N>
__device__ __forceinline__ void weights_of_keys(float (&s)[1][N][4],
                                                QueryStatistics const* statistics, float scale2,
                                                int key0, int query0) {
#pragma unroll
    for (int n = 0; n < N; ++n)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            int const col = n * 8 + lane() % 4 * 2 + e % 2;
            int const key = key0 + e / 2 * 8 + lane() / 4;
            float const weight = exp2_approximate(s[0][n][e] * scale2 - statistics[col].lse2);
            s[0][n][e] = query0 + col >= key ? weight : 0;
        }
}

// One pair (query, key) costs 8 head_size flops (scores, d_o . v, dv, dk). A block reads its keys
// and values once, and q and d_o of all queries from its first key on for each query head of the
// group: 4 head_size bytes per query for 64 pairs, 128 flops per byte, mostly from the
// second-level cache. Bound: shared memory beside tensor cores. A warp reads q and d_o of a block
// of queries twice for its 16 keys, and those keys and values again: 1.25 times the time of the
// mma on sm_80 (heads of 64: 1.13), twice that on sm_90 if mma.sync had all of the rate of wgmma
// there. Two blocks per multiprocessor (8 warps), limited by registers: dk and dv (16 x head_size
// each), weights and their gradients lie in them.
// resources: attention_keys_kernel<KeyPass<64, 64>>: 128 x 232 registers, 56320 B, 2 blocks
// resources: attention_keys_kernel<KeyPass<96, 32>>: 128 x 240 registers, 53760 B, 2 blocks
// resources: attention_keys_kernel<KeyPass<128, 32>>: 128 x 248 registers, 70144 B, 2 blocks
static_assert(KeyPass<64, 64>::shared_bytes == 56320);
static_assert(KeyPass<96, 32>::shared_bytes == 53760);
static_assert(KeyPass<128, 32>::shared_bytes == 70144);

template <class Pass>
__global__ void __launch_bounds__(tile_threads, 2)
    attention_keys_kernel(BackwardPointers in, AttentionSizes s) {
    EVENER_SHARED_DYNAMIC(bf16, shared);
    bf16* const k_tile = shared;
    bf16* const v_tile = k_tile + Pass::keys * Pass::stride;
    bf16* const q_tiles = v_tile + Pass::keys * Pass::stride;
    bf16* const d_o_tiles = q_tiles + 2 * Pass::queries * Pass::stride;
    auto* const statistics =
        reinterpret_cast<QueryStatistics*>(d_o_tiles + 2 * Pass::queries * Pass::stride);

    // The first keys have the most queries and come first.
    TileIndex const at{static_cast<int>(blockIdx.x), s.length, Pass::keys, s.key_heads};
    SequenceHeads<bf16 const> const heads{in.qkv, s, at.sequence};
    int const block_key0 = at.tile * Pass::keys;
    int const first = block_key0 / Pass::queries; // block of queries with the first key's own
    int const blocks = (s.length + Pass::queries - 1) / Pass::queries - first;
    auto const copy_queries = [&](int j) { // j counts the blocks of all heads of the group
        int const head = at.head * s.group + j / blocks;
        int const query0 = (first + j % blocks) * Pass::queries;
        int const offset = j % 2 * Pass::queries * Pass::stride;
        copy_tile<Pass::queries, Pass::size>(q_tiles + offset, heads.query(head), query0, s.length,
                                             s.head_size);
        copy_tile<Pass::queries, Pass::size>(d_o_tiles + offset,
                                             output_rows(in.d_o, s, at.sequence, head), query0,
                                             s.length, s.head_size);
        if (threadIdx.x < Pass::queries / 2) // two queries in 16 bytes
            cp_async16(statistics + j % 2 * Pass::queries + 2 * threadIdx.x,
                       in.statistics + statistics_offset(s, at.sequence, head) + query0 +
                           2 * threadIdx.x);
        cp_async_commit();
    };

    copy_tile<Pass::keys, Pass::size>(k_tile, heads.key(at.head), block_key0, s.length,
                                      s.head_size);
    copy_tile<Pass::keys, Pass::size>(v_tile, heads.value(at.head), block_key0, s.length,
                                      s.head_size);
    copy_queries(0);
    float dk[1][Pass::size / 8][4] = {};
    float dv[1][Pass::size / 8][4] = {};
    int const key0 = block_key0 + warp() * 16; // the warp's first
    bf16* const k_rows = k_tile + warp() * 16 * Pass::stride;
    bf16* const v_rows = v_tile + warp() * 16 * Pass::stride;
    for (int j = 0; j < s.group * blocks; ++j) {
        cp_async_wait<0>();
        __syncthreads(); // block j is there, and block j - 1 has been used by all
        if (j + 1 < s.group * blocks)
            copy_queries(j + 1);
        int const query0 = (first + j % blocks) * Pass::queries;
        if (query0 + Pass::queries <= key0)
            continue; // before all keys of this warp
        bf16 const* const q = q_tiles + j % 2 * Pass::queries * Pass::stride;
        bf16 const* const d_o = d_o_tiles + j % 2 * Pass::queries * Pass::stride;
        QueryStatistics const* const queries = statistics + j % 2 * Pass::queries;
        float p[1][Pass::queries / 8][4] = {};
        multiply<Pass::size>(p, LeftInTile<Pass::size>{k_rows}, q);
        weights_of_keys(p, queries, s.scale * log2_of_e, key0, query0);
        add_weighted<Pass::size>(dv, p, d_o);
        float ds[1][Pass::queries / 8][4] = {};
        multiply<Pass::size>(ds, LeftInTile<Pass::size>{v_rows}, d_o);
#pragma unroll
        for (int n = 0; n < Pass::queries / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                ds[0][n][e] =
                    p[0][n][e] * (ds[0][n][e] - queries[n * 8 + lane() % 4 * 2 + e % 2].delta);
        add_weighted<Pass::size>(dk, ds, q);
    }

    SequenceHeads<bf16> const results{in.dqkv, s, at.sequence};
    float const scales[1][2] = {{s.scale, s.scale}};
    float const ones[1][2] = {{1, 1}};
    store_rows<Pass::size>(dk, scales, k_rows, results.key(at.head), key0, s.length, s.head_size);
    store_rows<Pass::size>(dv, ones, v_rows, results.value(at.head), key0, s.length, s.head_size);
}

// One pair (query, key) costs 6 head_size flops (scores, d_o . v, dq). A block reads q and d_o of
// its queries once and keys and values up to its last query: 4 head_size bytes per key for 64
// pairs, 96 flops per byte, mostly from the second-level cache. Bound: tensor cores and shared
// memory alike on sm_80: a warp holds q and d_o of its 16 queries in registers and reads keys
// twice and values once, which takes the time of the mma; on sm_90 twice that if mma.sync had all
// of the rate of wgmma. Two blocks per multiprocessor (8 warps), limited by registers.
// resources: attention_queries_kernel<QueryPass<64, 64>>: 128 x 224 registers, 55296 B, 2 blocks
// resources: attention_queries_kernel<QueryPass<96, 32>>: 128 x 200 registers, 53248 B, 2 blocks
// resources: attention_queries_kernel<QueryPass<128, 32>>: 128 x 240 registers, 69632 B, 2 blocks
static_assert(QueryPass<64, 64>::shared_bytes == 55296);
static_assert(QueryPass<96, 32>::shared_bytes == 53248);
static_assert(QueryPass<128, 32>::shared_bytes == 69632);

template <class Pass>
__global__ void __launch_bounds__(tile_threads, 2)
    attention_queries_kernel(BackwardPointers in, AttentionSizes s) {
    EVENER_SHARED_DYNAMIC(bf16, shared);
    bf16* const q_tile = shared;
    bf16* const d_o_tile = q_tile + Pass::queries * Pass::stride;
    bf16* const k_tiles = d_o_tile + Pass::queries * Pass::stride;
    bf16* const v_tiles = k_tiles + 2 * Pass::keys * Pass::stride;

    TileIndex const at{static_cast<int>(blockIdx.x), s.length, Pass::queries, s.query_heads};
    int const block_query0 = (at.tiles - 1 - at.tile) * Pass::queries; // the longest first
    SequenceHeads<bf16 const> const heads{in.qkv, s, at.sequence};
    auto const k = heads.key(at.head / s.group);
    auto const v = heads.value(at.head / s.group);
    auto const copy_keys = [&](int j) {
        int const offset = j % 2 * Pass::keys * Pass::stride;
        copy_tile<Pass::keys, Pass::size>(k_tiles + offset, k, j * Pass::keys, s.length,
                                          s.head_size);
        copy_tile<Pass::keys, Pass::size>(v_tiles + offset, v, j * Pass::keys, s.length,
                                          s.head_size);
        cp_async_commit();
    };

    copy_tile<Pass::queries, Pass::size>(q_tile, heads.query(at.head), block_query0, s.length,
                                         s.head_size);
    copy_tile<Pass::queries, Pass::size>(d_o_tile, output_rows(in.d_o, s, at.sequence, at.head),
                                         block_query0, s.length, s.head_size);
    copy_keys(0);
    int const query0 = block_query0 + warp() * 16; // the warp's first
    bf16* const q_rows = q_tile + warp() * 16 * Pass::stride;
    bf16 const* const d_o_rows = d_o_tile + warp() * 16 * Pass::stride;
    QueryStatistics const* const statistics =
        in.statistics + statistics_offset(s, at.sequence, at.head) + query0 + lane() / 4;
    QueryStatistics const queries[2] = {statistics[0], statistics[8]};
    LeftInRegisters<Pass::size> q;
    LeftInRegisters<Pass::size> d_o;
    float dq[1][Pass::size / 8][4] = {};
    int const blocks = (min(block_query0 + Pass::queries, s.length) + Pass::keys - 1) / Pass::keys;
    for (int j = 0; j < blocks; ++j) {
        cp_async_wait<0>();
        __syncthreads(); // block j is there, and block j - 1 has been used by all
        if (j + 1 < blocks)
            copy_keys(j + 1);
        if (j == 0) {
            q.load(q_rows);
            d_o.load(d_o_rows);
        }
        int const key0 = j * Pass::keys;
        if (key0 >= query0 + 16)
            continue; // after all queries of this warp
        int const offset = j % 2 * Pass::keys * Pass::stride;
        float p[1][Pass::keys / 8][4] = {};
        multiply<Pass::size>(p, q, k_tiles + offset);
        float ds[1][Pass::keys / 8][4] = {};
        multiply<Pass::size>(ds, d_o, v_tiles + offset);
#pragma unroll
        for (int n = 0; n < Pass::keys / 8; ++n)
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                QueryStatistics const& query = queries[e / 2];
                float const weight =
                    exp2_approximate(p[0][n][e] * (s.scale * log2_of_e) - query.lse2);
                bool const seen =
                    key0 + n * 8 + lane() % 4 * 2 + e % 2 <= query0 + e / 2 * 8 + lane() / 4;
                ds[0][n][e] = seen ? weight * (ds[0][n][e] - query.delta) : 0;
            }
        add_weighted<Pass::size>(dq, ds, k_tiles + offset);
    }

    SequenceHeads<bf16> const results{in.dqkv, s, at.sequence};
    float const scales[1][2] = {{s.scale, s.scale}};
    store_rows<Pass::size>(dq, scales, q_rows, results.query(at.head), query0, s.length,
                           s.head_size);
}

template <class Keys, class Queries>
void launch(AttentionShape const& shape, Operands in, QueryStatistics const* statistics,
            cudaStream_t stream) {
    using O = AttentionBackwardOperand;
    AttentionSizes const s = sizes_of(shape);
    BackwardPointers const pointers{in.at<bf16>(O::qkv), in.at<bf16>(O::d_o), statistics,
                                    in.at<bf16>(O::dqkv)};
    auto const key_tiles = static_cast<unsigned>(tile_count(shape, Keys::keys, shape.key_heads));
    auto const query_tiles =
        static_cast<unsigned>(tile_count(shape, Queries::queries, shape.query_heads));
    EVENER_LAUNCH(attention_keys_kernel<Keys>, dim3(key_tiles), dim3(tile_threads),
                  Keys::shared_bytes, stream, pointers, s);
    EVENER_LAUNCH(attention_queries_kernel<Queries>, dim3(query_tiles), dim3(tile_threads),
                  Queries::shared_bytes, stream, pointers, s);
}

using Launch = void (*)(AttentionShape const&, Operands, QueryStatistics const*, cudaStream_t);

/// The smallest tiles that hold the heads.
Launch launch_for(std::int64_t head_size) {
    if (head_size <= 64)
        return launch<KeyPass<64, 64>, QueryPass<64, 64>>;
    if (head_size <= 96)
        return launch<KeyPass<96, 32>, QueryPass<96, 32>>;
    return launch<KeyPass<128, 32>, QueryPass<128, 32>>;
}

} // namespace

OperationPtr make_attention_backward(AttentionShape const& shape, Context const& context) {
    require_countable(shape);
    bool const tiled = fits_tiles(shape) && context.has_bfloat16();
    auto const body = [shape, tiled](Operands in, std::byte* workspace, cudaStream_t stream) {
        using O = AttentionBackwardOperand;
        if (shape.sequences * shape.sequence_length * shape.query_heads * shape.head_size == 0)
            return; // dqkv is empty
        auto* const statistics = reinterpret_cast<QueryStatistics*>(workspace);
        make_statistics(shape, in, statistics, stream);
        if (tiled && is_aligned(in.at<bf16>(O::qkv), 16) && is_aligned(in.at<bf16>(O::d_o), 16) &&
            is_aligned(in.at<bf16>(O::dqkv), 16))
            launch_for(shape.head_size)(shape, in, statistics, stream);
        else
            attention_backward_general(shape, in, statistics, stream);
    };
    return make_operation(body, statistics_count(shape) * std::int64_t{sizeof(QueryStatistics)});
}

} // namespace evener::kernels::cuda
