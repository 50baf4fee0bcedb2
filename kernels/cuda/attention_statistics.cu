// SPDX-License-Identifier: Apache-2.0

// lse and o . d_o of each query, for the backward pass of attention. Bound by memory: per query and
// head 2 head_size elements in and 8 bytes out, 2 head_size flops.

#include "kernels/cuda/access.cuh"
#include "kernels/cuda/attention_statistics.cuh"

namespace evener::kernels::cuda {
namespace {

constexpr int threads = 256;
constexpr int lanes = 16; ///< that share a query

template <class T, class A>
__global__ void __launch_bounds__(threads)
    attention_statistics_kernel(T const* o, T const* d_o, float const* lse,
                                QueryStatistics* statistics, AttentionSizes s, std::int64_t count) {
    std::int64_t const index = (std::int64_t{blockIdx.x} * threads + threadIdx.x) / lanes;
    int const lane = static_cast<int>(threadIdx.x % lanes);
    std::int64_t const padded = padded_length(s.length);
    std::int64_t const query = index % padded;
    std::int64_t const head = index / padded % s.query_heads;
    std::int64_t const row = index / padded / s.query_heads * s.length + query;
    bool const there = index < count && query < s.length;
    float delta = 0;
    if (there) {
        std::int64_t const first = (row * s.query_heads + head) * s.head_size;
        for (int c = lane * A::size; c < s.head_size; c += lanes * A::size) {
            float left[A::size];
            float right[A::size];
            load<A>(o + first + c, left);
            load<A>(d_o + first + c, right);
#pragma unroll
            for (int i = 0; i < A::size; ++i)
                delta += left[i] * right[i];
        }
    }
#pragma unroll
    for (int distance = 1; distance < lanes; distance *= 2)
        delta += __shfl_xor_sync(0xffffffffu, delta, distance);
    if (lane == 0 && index < count)
        statistics[index] =
            there ? QueryStatistics{lse[row * s.query_heads + head] * log2_of_e, delta}
                  : QueryStatistics{INFINITY, 0};
}

} // namespace

void make_statistics(AttentionShape const& shape, Operands in, QueryStatistics* statistics,
                     cudaStream_t stream) {
    using O = AttentionBackwardOperand;
    std::int64_t const count = statistics_count(shape);
    dim3 const grid(static_cast<unsigned>(div_up(count * lanes, threads)));
    with_element(shape.type, [&]<class T>(T) {
        T const* const o = in.at<T>(O::o);
        T const* const d_o = in.at<T>(O::d_o);
        auto const body = [&]<class A>(A) {
            EVENER_LAUNCH((attention_statistics_kernel<T, A>), grid, dim3(threads), 0, stream, o,
                          d_o, in.at<float>(O::lse), statistics, sizes_of(shape), count);
        };
        with_row_access<T>(shape.head_size, body, o, d_o);
    });
}

} // namespace evener::kernels::cuda
