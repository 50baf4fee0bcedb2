// SPDX-License-Identifier: Apache-2.0

// Rotary position embedding in place. Bound by memory: each element of the query and key heads is
// read and written once, for 3 flops. A block turns all heads of a few rows by cosines and sines it
// has put into shared memory: about 60 operations in double per row and pair of columns, which with
// 40 heads of bfloat16 are 0.2 per byte moved (an H100 has 10 per byte, consumer GPUs 0.5). Angles
// are reduced to an eighth of a turn in double, so that the last position of a long sequence is as
// exact as the first.

#include "kernels/check.hpp"
#include "kernels/cuda/access.cuh"
#include "kernels/cuda/operations.hpp"

#include <algorithm>
#include <cmath>

namespace evener::kernels::cuda {
namespace {

constexpr int threads = 256;
constexpr int most_pairs = 6144; ///< of a head: 48 KiB of cosines and sines

struct RotarySizes {
    std::int64_t rows;
    std::int64_t length;
    std::int64_t row; ///< elements
    int heads;        ///< that turn: query and key heads
    int half;         ///< pairs of a head
    int block_rows;
    double octaves; ///< the frequency of pair i is 2^(i * octaves)
    float sign;     ///< -1 turns back
};

/// Cosine and sine of so many whole turns.
__device__ __forceinline__ float2 turn(double turns) {
    double const quarters = rint(4 * turns);
    double const x = (turns - quarters / 4) * 6.283185307179586; // at most pi / 4
    double const x2 = x * x;
    // Taylor series; the first terms left out are below 1e-13.
    double cosine = 1.0 / 479001600;
    cosine = cosine * x2 - 1.0 / 3628800;
    cosine = cosine * x2 + 1.0 / 40320;
    cosine = cosine * x2 - 1.0 / 720;
    cosine = cosine * x2 + 1.0 / 24;
    cosine = cosine * x2 - 0.5;
    cosine = cosine * x2 + 1;
    double sine = -1.0 / 39916800;
    sine = sine * x2 + 1.0 / 362880;
    sine = sine * x2 - 1.0 / 5040;
    sine = sine * x2 + 1.0 / 120;
    sine = sine * x2 - 1.0 / 6;
    sine = (sine * x2 + 1) * x;
    auto const quarter = static_cast<int>(quarters - 4 * floor(quarters / 4));
    auto const c = static_cast<float>(quarter % 2 == 0 ? cosine : sine);
    auto const s = static_cast<float>(quarter % 2 == 0 ? sine : cosine);
    return {quarter == 1 || quarter == 2 ? -c : c, quarter >= 2 ? -s : s};
}

template <class T, class A>
__global__ void __launch_bounds__(threads) rotary_kernel(T* qkv, RotarySizes s) {
    EVENER_SHARED_DYNAMIC(float2, turns); // [block_rows][half]
    std::int64_t const row0 = std::int64_t{blockIdx.x} * s.block_rows;
    int const rows = static_cast<int>(min(std::int64_t{s.block_rows}, s.rows - row0));
    for (int t = static_cast<int>(threadIdx.x); t < rows * s.half; t += threads) {
        auto const position = static_cast<double>((row0 + t / s.half) % s.length);
        float2 const at = turn(position * exp2(t % s.half * s.octaves) * 0.15915494309189535);
        turns[t] = {at.x, at.y * s.sign};
    }
    __syncthreads();
    int const pieces = s.half / A::size;
    for (int t = static_cast<int>(threadIdx.x); t < rows * s.heads * pieces; t += threads) {
        int const head_of_row = t / pieces;
        int const r = head_of_row / s.heads;
        int const i = t % pieces * A::size;
        T* const low =
            qkv + (row0 + r) * s.row + std::int64_t{head_of_row % s.heads} * 2 * s.half + i;
        float x[A::size];
        float y[A::size];
        load<A>(low, x);
        load<A>(low + s.half, y);
#pragma unroll
        for (int e = 0; e < A::size; ++e) {
            float2 const at = turns[r * s.half + i + e];
            float const turned = x[e] * at.x - y[e] * at.y;
            y[e] = y[e] * at.x + x[e] * at.y;
            x[e] = turned;
        }
        store<A>(low, x);
        store<A>(low + s.half, y);
    }
}

RotarySizes sizes_of(RotaryShape const& shape) {
    RotarySizes s{};
    s.rows = shape.rows;
    s.length = shape.sequence_length;
    s.row = (shape.query_heads + 2 * shape.key_heads) * shape.head_size;
    s.heads = static_cast<int>(shape.query_heads + shape.key_heads);
    s.half = static_cast<int>(shape.head_size / 2);
    s.block_rows = std::clamp(s.half > 0 ? 512 / s.half : 1, 1, 8);
    s.octaves = -2 * std::log2(shape.theta) / static_cast<double>(shape.head_size);
    s.sign = shape.inverse ? -1.0f : 1.0f;
    return s;
}

void require_countable(RotaryShape const& shape) {
    Refused refused;
    if (shape.head_size / 2 > most_pairs) {
        refuse(refused.reason, "head_size is %lld (rotary embedding takes up to %d here)",
               static_cast<long long>(shape.head_size), 2 * most_pairs);
        throw refused;
    }
    constexpr std::int64_t most = (std::int64_t{1} << 31) - 1;
    if (shape.rows > most || (shape.query_heads + shape.key_heads) * shape.head_size > most / 8) {
        refuse(refused.reason, "%lld rows of %lld heads of %lld (the kernel counts to %lld)",
               static_cast<long long>(shape.rows),
               static_cast<long long>(shape.query_heads + shape.key_heads),
               static_cast<long long>(shape.head_size), static_cast<long long>(most));
        throw refused;
    }
}

} // namespace

OperationPtr make_rotary(RotaryShape const& shape, Context const&) {
    require_countable(shape);
    return with_element(shape.type, [&]<class T>(T) {
        return make_operation([s = sizes_of(shape)](Operands in, std::byte*, cudaStream_t stream) {
            if (s.rows == 0 || s.heads == 0 || s.half == 0)
                return;
            dim3 const grid(static_cast<unsigned>(div_up(s.rows, s.block_rows)));
            auto const shared = static_cast<std::size_t>(s.block_rows * s.half) * sizeof(float2);
            T* const qkv = in.at<T>(RotaryOperand::qkv);
            auto const body = [&]<class A>(A) {
                EVENER_LAUNCH((rotary_kernel<T, A>), grid, dim3(threads), shared, stream, qkv, s);
            };
            with_row_access<T>(s.half, body, qkv);
        });
    });
}

} // namespace evener::kernels::cuda
