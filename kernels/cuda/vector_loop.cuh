// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs an operation over a vector of independent elements: blocks that fill the device walk over it,
// N neighbouring elements per thread and step, the odd ones at the end one by one.

#include "kernels/cuda/access.cuh"
#include "kernels/cuda/operation.hpp"

#include <algorithm>

namespace evener::kernels::cuda {

inline constexpr int vector_threads = 256;

/// Each thread calls body.begin() once, which may read what is the same for all elements, then
/// body.at<A>(i) for elements [i, i + A::size).
template <class A, class Body>
__global__ void __launch_bounds__(vector_threads) vector_kernel(std::int64_t elements, Body body) {
    std::int64_t const thread =
        static_cast<std::int64_t>(blockIdx.x) * vector_threads + threadIdx.x;
    std::int64_t const threads = static_cast<std::int64_t>(gridDim.x) * vector_threads;
    std::int64_t const together = elements / A::size;
    body.begin();
    for (std::int64_t i = thread; i < together; i += threads)
        body.template at<A>(i * A::size);
    std::int64_t const odd = together * A::size + thread;
    if (odd < elements)
        body.template at<Single>(odd);
}

/// `aligned`: all pointers of the body are, to N elements or 16 bytes, whichever is less.
template <int N, class Body>
void over_vector(std::int64_t elements, bool aligned, Body const& body, Context const& context,
                 cudaStream_t stream) {
    if (elements == 0)
        return;
    std::int64_t const filled = 8 * context.multiprocessors; // 2048 threads on each
    std::int64_t const wanted = div_up(elements, vector_threads * std::int64_t{N});
    dim3 const grid(static_cast<unsigned>(std::min(filled, wanted)));
    if (aligned)
        EVENER_LAUNCH((vector_kernel<Access<N, true>, Body>), grid, dim3(vector_threads), 0, stream,
                      elements, body);
    else
        EVENER_LAUNCH((vector_kernel<Single, Body>), grid, dim3(vector_threads), 0, stream,
                      elements, body);
}

} // namespace evener::kernels::cuda
