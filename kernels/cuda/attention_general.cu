// SPDX-License-Identifier: Apache-2.0

// Attention without tensor cores: float32, and bfloat16 where the tensor-core kernels do not fit.
// A block of 256 threads handles 64 x 64 pairs of queries and keys at a time, 16 pairs per thread
// (rows y + 16 i, columns x + 16 j), and 128 columns of the result; heads wider than that take
// several blocks, which recompute the weights. Products go through shared memory, 32 columns of the
// heads at a time. One pair costs 4 head_size flops (forward), 8 (keys) and 6 (queries) in fused
// multiply-adds of float32, at 128 or more flops per 4 bytes read. Bound: shared memory, which
// gives a warp one load per cycle against 4 multiply-adds: 8 loads for 16 of them (scores) and 12
// for 32 (sums) leave half to two thirds of the float32 peak.

#include "kernels/check.hpp"
#include "kernels/cuda/access.cuh"
#include "kernels/cuda/attention_general.hpp"
#include "kernels/cuda/attention_statistics.cuh"

namespace evener::kernels::cuda {
namespace {

constexpr int threads = 256;
constexpr int tile = 64;     ///< queries and keys of a block of pairs
constexpr int depth = 32;    ///< columns of heads multiplied at a time
constexpr int columns = 128; ///< of the result, per block
constexpr int staged_stride = depth + 1;
constexpr int weights_stride = tile + 1;
constexpr int staging_floats = 2 * tile * staged_stride;
static_assert(staging_floats >= depth * columns);

/// Up to 64 rows of a head from `begin` on; those from `end` on count as zero.
template <class T>
struct Rows {
    HeadRows<T const> head;
    int begin;
    int end;

    __device__ float at(int row, int column, int columns_end) const {
        return begin + row < end && column < columns_end
                   ? to_float(head.first[(begin + row) * head.stride + column])
                   : 0.0f;
    }
};

__device__ __forceinline__ int thread_x() {
    return static_cast<int>(threadIdx.x % 16);
}
__device__ __forceinline__ int thread_y() {
    return static_cast<int>(threadIdx.x / 16);
}

/// acc = left x right^T. Uses `staging`; the whole block calls.
template <class T>
__device__ __forceinline__ void multiply(float (&acc)[4][4], Rows<T> left, Rows<T> right,
                                         int head_size, float* staging) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            acc[i][j] = 0;
    float* const a = staging;
    float* const b = staging + tile * staged_stride;
    int const column = static_cast<int>(threadIdx.x) % depth;
    for (int d = 0; d < head_size; d += depth) {
        __syncthreads();
        for (int r = static_cast<int>(threadIdx.x) / depth; r < tile; r += threads / depth) {
            a[r * staged_stride + column] = left.at(r, d + column, head_size);
            b[r * staged_stride + column] = right.at(r, d + column, head_size);
        }
        __syncthreads();
#pragma unroll 4
        for (int k = 0; k < depth; ++k) {
            float x[4];
            float y[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) {
                y[i] = a[(thread_y() + 16 * i) * staged_stride + k];
                x[i] = b[(thread_x() + 16 * i) * staged_stride + k];
            }
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
                for (int j = 0; j < 4; ++j)
                    acc[i][j] += y[i] * x[j];
        }
    }
}

/// Hands the threads' weights to the block; add_weighted waits for them.
__device__ __forceinline__ void share(float const (&values)[4][4], float* weights) {
    __syncthreads(); // the former ones have been used
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
            weights[(thread_y() + 16 * i) * weights_stride + thread_x() + 16 * j] = values[i][j];
}

/// acc += weights[64][64] x columns [first, first + 128) of rows.
template <class T>
__device__ __forceinline__ void add_weighted(float (&acc)[4][8], float const* weights, Rows<T> rows,
                                             int first, int head_size, float* staging) {
    int const column = static_cast<int>(threadIdx.x) % columns;
    for (int k0 = 0; k0 < tile; k0 += depth) {
        __syncthreads();
        for (int r = static_cast<int>(threadIdx.x) / columns; r < depth; r += threads / columns)
            staging[r * columns + column] = rows.at(k0 + r, first + column, head_size);
        __syncthreads();
#pragma unroll 2
        for (int k = 0; k < depth; ++k) {
            float w[4];
#pragma unroll
            for (int i = 0; i < 4; ++i)
                w[i] = weights[(thread_y() + 16 * i) * weights_stride + k0 + k];
#pragma unroll
            for (int c = 0; c < 8; ++c) {
                float const value = staging[k * columns + thread_x() + 16 * c];
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    acc[i][c] += w[i] * value;
            }
        }
    }
}

/// Writes factor[i] * acc[i] to the rows [begin, end) of a head.
template <class T>
__device__ __forceinline__ void store(float const (&acc)[4][8], float const (&factor)[4],
                                      HeadRows<T> dst, int begin, int end, int first,
                                      int head_size) {
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int c = 0; c < 8; ++c) {
            int const row = begin + thread_y() + 16 * i;
            int const column = first + thread_x() + 16 * c;
            if (row < end && column < head_size)
                dst.first[row * dst.stride + column] = round_to<T>(acc[i][c] * factor[i]);
        }
}

/// Over the 16 threads that share a row.
__device__ __forceinline__ float row_max(float value) {
#pragma unroll
    for (int distance = 1; distance < 16; distance *= 2)
        value = fmaxf(value, __shfl_xor_sync(0xffffffffu, value, distance));
    return value;
}
__device__ __forceinline__ float row_sum(float value) {
#pragma unroll
    for (int distance = 1; distance < 16; distance *= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

template <class T>
__global__ void __launch_bounds__(threads)
    general_forward_kernel(T const* qkv, T* o, float* lse, AttentionSizes s) {
    EVENER_SHARED(float, staging, [staging_floats]);
    EVENER_SHARED(float, weights, [tile * weights_stride]);
    TileIndex const at{static_cast<int>(blockIdx.x), s.length, tile, s.query_heads};
    int const query0 = (at.tiles - 1 - at.tile) * tile; // the longest first
    int const first = static_cast<int>(blockIdx.y) * columns;
    SequenceHeads<T const> const heads{qkv, s, at.sequence};
    Rows<T> const q{heads.query(at.head), query0, s.length};
    auto const k = heads.key(at.head / s.group);
    auto const v = heads.value(at.head / s.group);
    float acc[4][8] = {};
    float top[4] = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    float total[4] = {}; // of the thread's own columns
    for (int key0 = 0; key0 < min(query0 + tile, s.length); key0 += tile) {
        float p[4][4];
        multiply<T>(p, q, {k, key0, s.length}, s.head_size, staging);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            float highest = top[i];
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                bool const seen = key0 + thread_x() + 16 * j <= query0 + thread_y() + 16 * i;
                p[i][j] = seen ? p[i][j] * (s.scale * log2_of_e) : -INFINITY;
                highest = fmaxf(highest, p[i][j]);
            }
            highest = row_max(highest);
            float const fade = exp2f(top[i] - highest);
            top[i] = highest;
            total[i] *= fade;
#pragma unroll
            for (int j = 0; j < 4; ++j)
                total[i] += p[i][j] = exp2f(p[i][j] - highest);
#pragma unroll
            for (int c = 0; c < 8; ++c)
                acc[i][c] *= fade;
        }
        share(p, weights);
        add_weighted<T>(acc, weights, {v, key0, s.length}, first, s.head_size, staging);
    }
    float factor[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        total[i] = row_sum(total[i]);
        factor[i] = 1 / total[i];
        int const query = query0 + thread_y() + 16 * i;
        if (first == 0 && thread_x() == 0 && query < s.length)
            lse[(at.sequence * s.length + query) * s.query_heads + at.head] =
                top[i] / log2_of_e + logf(total[i]);
    }
    store(acc, factor, output_rows(o, s, at.sequence, at.head), query0, s.length, first,
          s.head_size);
}

/// Pointers of the backward operands.
template <class T>
struct BackwardPointers {
    T const* qkv;
    T const* d_o;
    QueryStatistics const* statistics;
    T* dqkv;
};

/// dk and dv of 64 keys of one key head, from all query heads of its group in order. Pairs have the
/// key as row, so that the weights are those of the sums over queries.
template <class T>
__global__ void __launch_bounds__(threads)
    general_keys_kernel(BackwardPointers<T> in, AttentionSizes s) {
    EVENER_SHARED(float, staging, [staging_floats]);
    EVENER_SHARED(float, weights, [tile * weights_stride]);
    TileIndex const at{static_cast<int>(blockIdx.x), s.length, tile, s.key_heads};
    int const key0 = at.tile * tile;
    int const first = static_cast<int>(blockIdx.y) * columns;
    SequenceHeads<T const> const heads{in.qkv, s, at.sequence};
    Rows<T> const k{heads.key(at.head), key0, s.length};
    Rows<T> const v{heads.value(at.head), key0, s.length};
    float dk[4][8] = {};
    float dv[4][8] = {};
    for (int head = at.head * s.group; head < (at.head + 1) * s.group; ++head) {
        QueryStatistics const* const statistics =
            in.statistics + statistics_offset(s, at.sequence, head);
        for (int query0 = key0; query0 < s.length; query0 += tile) {
            Rows<T> const q{heads.query(head), query0, s.length};
            Rows<T> const d_o{output_rows(in.d_o, s, at.sequence, head), query0, s.length};
            float p[4][4];
            multiply<T>(p, k, q, s.head_size, staging);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                int const query = query0 + thread_x() + 16 * j;
                float const lse2 = statistics[query].lse2;
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    p[i][j] = key0 + thread_y() + 16 * i <= query
                                  ? exp2f(p[i][j] * (s.scale * log2_of_e) - lse2)
                                  : 0;
            }
            share(p, weights);
            add_weighted<T>(dv, weights, d_o, first, s.head_size, staging);
            float ds[4][4];
            multiply<T>(ds, v, d_o, s.head_size, staging);
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                float const delta = statistics[query0 + thread_x() + 16 * j].delta;
#pragma unroll
                for (int i = 0; i < 4; ++i)
                    ds[i][j] = p[i][j] * (ds[i][j] - delta);
            }
            share(ds, weights);
            add_weighted<T>(dk, weights, q, first, s.head_size, staging);
        }
    }
    SequenceHeads<T> const results{in.dqkv, s, at.sequence};
    float const scales[4] = {s.scale, s.scale, s.scale, s.scale};
    float const ones[4] = {1, 1, 1, 1};
    store(dk, scales, results.key(at.head), key0, s.length, first, s.head_size);
    store(dv, ones, results.value(at.head), key0, s.length, first, s.head_size);
}

/// dq of 64 queries of one head.
template <class T>
__global__ void __launch_bounds__(threads)
    general_queries_kernel(BackwardPointers<T> in, AttentionSizes s) {
    EVENER_SHARED(float, staging, [staging_floats]);
    EVENER_SHARED(float, weights, [tile * weights_stride]);
    TileIndex const at{static_cast<int>(blockIdx.x), s.length, tile, s.query_heads};
    int const query0 = (at.tiles - 1 - at.tile) * tile; // the longest first
    int const first = static_cast<int>(blockIdx.y) * columns;
    SequenceHeads<T const> const heads{in.qkv, s, at.sequence};
    Rows<T> const q{heads.query(at.head), query0, s.length};
    Rows<T> const d_o{output_rows(in.d_o, s, at.sequence, at.head), query0, s.length};
    QueryStatistics queries[4];
#pragma unroll
    for (int i = 0; i < 4; ++i)
        queries[i] = in.statistics[statistics_offset(s, at.sequence, at.head) + query0 +
                                   thread_y() + 16 * i];
    float dq[4][8] = {};
    for (int key0 = 0; key0 < min(query0 + tile, s.length); key0 += tile) {
        Rows<T> const k{heads.key(at.head / s.group), key0, s.length};
        Rows<T> const v{heads.value(at.head / s.group), key0, s.length};
        float p[4][4];
        float ds[4][4];
        multiply<T>(p, q, k, s.head_size, staging);
        multiply<T>(ds, d_o, v, s.head_size, staging);
#pragma unroll
        for (int i = 0; i < 4; ++i)
#pragma unroll
            for (int j = 0; j < 4; ++j) {
                bool const seen = key0 + thread_x() + 16 * j <= query0 + thread_y() + 16 * i;
                float const weight = exp2f(p[i][j] * (s.scale * log2_of_e) - queries[i].lse2);
                ds[i][j] = seen ? weight * (ds[i][j] - queries[i].delta) : 0;
            }
        share(ds, weights);
        add_weighted<T>(dq, weights, k, first, s.head_size, staging);
    }
    SequenceHeads<T> const results{in.dqkv, s, at.sequence};
    float const scales[4] = {s.scale, s.scale, s.scale, s.scale};
    store(dq, scales, results.query(at.head), query0, s.length, first, s.head_size);
}

dim3 grid_of(AttentionShape const& shape, std::int64_t heads) {
    std::int64_t const parts = div_up(shape.head_size, columns);
    return dim3(static_cast<unsigned>(tile_count(shape, tile, heads)),
                static_cast<unsigned>(parts > 0 ? parts : 1)); // lse is there without columns too
}

} // namespace

void require_countable(AttentionShape const& shape) {
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    std::int64_t const lanes_of_statistics = 16;
    Refused refused;
    auto const within = [&](char const* name, std::int64_t value, std::int64_t limit) {
        return value <= limit ||
               refuse(refused.reason, "%s is %lld (the kernels count to %lld)", name,
                      static_cast<long long>(value), static_cast<long long>(limit));
    };
    if (!within("sequence_length", shape.sequence_length, most / 2) ||
        !within("head_size", shape.head_size, columns * std::int64_t{65535}) ||
        !within("query_heads", shape.query_heads, most) ||
        !within("key_heads", shape.key_heads, most) ||
        !within("the number of query tiles", tile_count(shape, tile, shape.query_heads),
                most / lanes_of_statistics))
        throw refused;
}

void attention_general(AttentionShape const& shape, Operands in, cudaStream_t stream) {
    using O = AttentionOperand;
    with_element(shape.type, [&]<class T>(T) {
        EVENER_LAUNCH(general_forward_kernel<T>, grid_of(shape, shape.query_heads), dim3(threads),
                      0, stream, in.at<T>(O::qkv), in.at<T>(O::o), in.at<float>(O::lse),
                      sizes_of(shape));
    });
}

void attention_backward_general(AttentionShape const& shape, Operands in,
                                QueryStatistics const* statistics, cudaStream_t stream) {
    using O = AttentionBackwardOperand;
    with_element(shape.type, [&]<class T>(T) {
        BackwardPointers<T> const pointers{in.at<T>(O::qkv), in.at<T>(O::d_o), statistics,
                                           in.at<T>(O::dqkv)};
        EVENER_LAUNCH(general_keys_kernel<T>, grid_of(shape, shape.key_heads), dim3(threads), 0,
                      stream, pointers, sizes_of(shape));
        EVENER_LAUNCH(general_queries_kernel<T>, grid_of(shape, shape.query_heads), dim3(threads),
                      0, stream, pointers, sizes_of(shape));
    });
}

} // namespace evener::kernels::cuda
