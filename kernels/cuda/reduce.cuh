// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums over warps and blocks in an order that the sizes alone decide.

#include "kernels/cuda/gpu.hpp"

namespace evener::kernels::cuda {

/// The sum over the warp's lanes, in all of them: neighbours first, then pairs of pairs.
template <class T>
__device__ __forceinline__ T warp_sum(T value) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2)
        value += __shfl_xor_sync(0xffffffffu, value, distance);
    return value;
}

/// The sum over a one-dimensional block of whole warps, in all its threads: lanes, then warps in
/// order. All threads must call; a second call waits until the first is read.
template <class T>
__device__ __forceinline__ T block_sum(T value) {
    EVENER_SHARED(T, of_warp, [32]);
    unsigned const warps = blockDim.x / 32;
    value = warp_sum(value);
    if (warps == 1)
        return value;
    if (threadIdx.x % 32 == 0)
        of_warp[threadIdx.x / 32] = value;
    __syncthreads();
    T total = of_warp[0];
    for (unsigned warp = 1; warp < warps; ++warp)
        total += of_warp[warp];
    __syncthreads();
    return total;
}

} // namespace evener::kernels::cuda
