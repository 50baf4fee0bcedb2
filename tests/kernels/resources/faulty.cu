// SPDX-License-Identifier: Apache-2.0

// One kernel for each fault that scripts/cuda_resources.py looks for, and what it has to say of it.

#include "kernels/cuda/mma.hpp"

namespace evener::kernels::cuda {

// complaint: spilling for sm_80 spills registers
// complaint: spilling for sm_80 has a stack frame
// complaint: spilling for sm_90 spills registers
// complaint: spilling for sm_90 has a stack frame
__global__ void __launch_bounds__(1024, 2) spilling(float const* src, float* dst) {
    float value[48];
#pragma unroll
    for (int i = 0; i < 48; ++i)
        value[i] = src[i * 1024 + threadIdx.x];
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 48; ++i)
        dst[i * 1024 + threadIdx.x] = value[i] * value[(i * 7 + 5) % 48];
}

// complaint: indexing for sm_80 uses local memory
// complaint: indexing for sm_80 has a stack frame
// complaint: indexing for sm_90 uses local memory
// complaint: indexing for sm_90 has a stack frame
__global__ void indexing(int const* at, float* dst) {
    float value[64];
    for (int i = 0; i < 64; ++i)
        value[i] = dst[i];
    for (int i = 0; i < 64; ++i)
        value[at[i]] += value[at[i + 64]];
    for (int i = 0; i < 64; ++i)
        dst[i] = value[at[i + 128]];
}

__device__ void multiply(float* dst) {
    std::uint32_t const a[4] = {threadIdx.x, 1, 2, 3};
    std::uint32_t const b[2] = {4, 5};
    float c[4] = {};
    mma_m16n8k16(c, a, b, c);
    dst[threadIdx.x] = c[0] + c[1] + c[2] + c[3];
}

// complaint: unclaimed for sm_80 multiplies on tensor cores without
// complaint: unclaimed for sm_90 multiplies on tensor cores without
__global__ void unclaimed(float* dst) {
    multiply(dst);
}

// resources: boastful<128>: 128 x 4 registers, 69632 B, 4 blocks
// complaint: boastful<128> for sm_80 claims 4 blocks where 2 fit
// complaint: boastful<128> for sm_90 claims 4 blocks where 3 fit
// complaint: boastful<128> for sm_80 claims at most 4 registers
// complaint: boastful<128> for sm_90 claims at most 4 registers
// complaint: boastful<128> for sm_80 does not copy asynchronously
// complaint: boastful<128> for sm_90 does not copy asynchronously
template <int threads>
__global__ void __launch_bounds__(threads) boastful(float* dst) {
    multiply(dst);
}
template __global__ void boastful<128>(float*);

// resources: greedy: 256 x 32 registers, 131072 B, 1 block
// complaint: greedy for sm_80 does not multiply on tensor cores
// complaint: greedy for sm_90 does not multiply on tensor cores
// complaint: greedy for sm_80 needs more shared memory than a block can have
// complaint: greedy for sm_90 needs more shared memory than a block can have
// complaint: greedy for sm_80 is not bounded to the 256 threads claimed
// complaint: greedy for sm_90 is not bounded to the 256 threads claimed
__global__ void __launch_bounds__(128) greedy(float const* src, float* dst) {
    EVENER_SHARED(float, values, [512]);
    cp_async16(values + 4 * threadIdx.x, src + 4 * threadIdx.x);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();
    dst[threadIdx.x] = values[511 - threadIdx.x];
}

// resources: absent: 128 x 32 registers, 1024 B, 1 block
// complaint: absent is claimed and not there

} // namespace evener::kernels::cuda
