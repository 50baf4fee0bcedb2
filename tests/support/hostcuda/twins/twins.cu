// SPDX-License-Identifier: Apache-2.0

// Every kernel is a template on whether it is wrong, in exactly one way. One block unless said
// otherwise; x and y have `count` elements.

#include "kernels/cuda/mma.hpp"

#include "twins.hpp"

namespace evener::twins {
namespace {

using namespace kernels::cuda;

constexpr unsigned whole_warp = 0xffffffffu;

// Memory: bounds and alignment.

template <bool wrong>
__global__ void oob_read(float const* x, float* y, int count) {
    int const i = static_cast<int>(threadIdx.x);
    if (wrong ? i <= count : i < count)
        y[i < count ? i : 0] = x[i];
}

template <bool wrong>
__global__ void oob_write(float const* x, float* y, int count) {
    int const i = static_cast<int>(threadIdx.x);
    if (wrong || i < count)
        y[i] = x[i < count ? i : 0];
}

template <bool wrong>
__global__ void oob_static_shared(float const* x, float* y, int) {
    EVENER_SHARED(float, values, [64]);
    if (threadIdx.x < 64)
        values[threadIdx.x + wrong] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 64)
        y[threadIdx.x] = values[threadIdx.x];
}

template <bool wrong>
__global__ void oob_dynamic_shared(float const* x, float* y, int) {
    EVENER_SHARED_DYNAMIC(float, values); // 64
    if (threadIdx.x < 64)
        values[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    if (threadIdx.x < 64)
        y[threadIdx.x] = values[threadIdx.x + wrong];
}

template <bool wrong>
__global__ void misaligned(float const* x, float* y, int) {
    if (threadIdx.x < 8) {
        float4 const four = *reinterpret_cast<float4 const*>(x + (wrong ? 1 : 4) * threadIdx.x);
        y[threadIdx.x] = four.x + four.w;
    }
}

// Barriers and collectives.

template <bool wrong>
__global__ void divergent_barrier(float const* x, float* y, int) {
    EVENER_SHARED(float, values, [128]);
    values[threadIdx.x] = x[threadIdx.x];
    if (wrong && threadIdx.x < 64) {
        __syncthreads();
        y[threadIdx.x] = values[threadIdx.x ^ 1];
    } else {
        __syncthreads();
        y[threadIdx.x] = values[threadIdx.x ^ 1];
    }
}

template <bool wrong>
__global__ void early_exit(float const* x, float* y, int) {
    EVENER_SHARED(float, values, [128]);
    values[threadIdx.x] = x[threadIdx.x];
    int const barriers = wrong && threadIdx.x == 5 ? 1 : 2;
    for (int i = 0; i < barriers; ++i)
        __syncthreads();
    y[threadIdx.x] = values[threadIdx.x];
}

template <bool wrong>
__global__ void shuffle_against_barrier(float const* x, float* y, int) {
    float value = x[threadIdx.x];
    if (!wrong || threadIdx.x % 32 < 16)
        value += __shfl_xor_sync(whole_warp, value, 1);
    __syncthreads();
    y[threadIdx.x] = value;
}

template <bool wrong>
__global__ void lane_outside_mask(float const* x, float* y, int) {
    float value = x[threadIdx.x];
    if (threadIdx.x % 32 >= 16)
        value += __shfl_xor_sync(wrong ? 0x0000ffffu : 0xffff0000u, value, 1);
    y[threadIdx.x] = value;
}

template <bool wrong>
__global__ void mixed_shuffles(float const* x, float* y, int) {
    float value = x[threadIdx.x];
    if (wrong && threadIdx.x % 2 == 1)
        value += __shfl_xor_sync(whole_warp, value, 2);
    else
        value += __shfl_down_sync(whole_warp, value, 2);
    y[threadIdx.x] = value;
}

template <bool wrong>
__global__ void partial_mma(float const* x, float* y, int) {
    std::uint32_t const a[4] = {};
    std::uint32_t const b[2] = {};
    float c[4] = {x[0], 0, 0, 0};
    if (!wrong || threadIdx.x % 32 != 31)
        mma_m16n8k16(c, a, b, c);
    y[threadIdx.x] = c[0];
}

// Contents of shared memory.

template <bool wrong>
__global__ void uninitialized_shared(float const* x, float* y, int) {
    EVENER_SHARED(float, values, [128]);
    if (!wrong || threadIdx.x < 127)
        values[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = values[127 - threadIdx.x];
}

template <bool wrong>
__global__ void missing_copy_wait(float const* x, float* y, int) {
    EVENER_SHARED(float4, values, [128]);
    cp_async16(values + threadIdx.x, x + threadIdx.x * 4);
    cp_async_commit();
    if (!wrong)
        cp_async_wait<0>();
    __syncthreads();
    y[threadIdx.x] = values[(threadIdx.x + 1) % 128].x;
    cp_async_wait<0>();
}

// Races.

template <bool wrong>
__global__ void read_after_write(float const* x, float* y, int) {
    EVENER_SHARED(float, values, [128]);
    values[threadIdx.x] = x[threadIdx.x];
    if (!wrong)
        __syncthreads();
    y[threadIdx.x] = values[(threadIdx.x + 1) % 128];
}

template <bool wrong>
__global__ void write_after_read(float const* x, float* y, int) {
    EVENER_SHARED(float, values, [128]);
    float sum = 0;
    for (int i = 1; i <= 3; ++i) {
        values[threadIdx.x] = x[threadIdx.x] * static_cast<float>(i);
        __syncthreads();
        sum += values[(threadIdx.x + 37) % 128];
        if (!wrong)
            __syncthreads();
    }
    y[threadIdx.x] = sum;
}

template <bool wrong>
__global__ void missing_syncwarp(float const* x, float* y, int) {
    EVENER_SHARED(float, values, [128]);
    values[threadIdx.x] = x[threadIdx.x];
    if (!wrong)
        __syncwarp();
    float value = x[threadIdx.x];
    if (wrong)
        value = __shfl_xor_sync(whole_warp, value, 0); // lanes meet, memory is not ordered
    y[threadIdx.x] = value + values[threadIdx.x ^ 1];
}

/// 16 blocks of 32 threads.
template <bool wrong>
__global__ void sum_across_blocks(float const* x, float* y, int) {
    if (threadIdx.x != 0)
        return;
    if (wrong)
        y[0] += x[blockIdx.x];
    else
        atomicAdd(y, x[blockIdx.x]);
}

template <bool wrong>
__global__ void sum_in_shared(float const* x, float* y, int) {
    EVENER_SHARED(float, sum, [1]);
    if (threadIdx.x == 0)
        sum[0] = 0;
    __syncthreads();
    if (wrong)
        sum[0] += x[threadIdx.x];
    else
        atomicAdd(&sum[0], x[threadIdx.x]);
    __syncthreads();
    y[threadIdx.x] = sum[0];
}

__global__ void add_to_half_kernel(float* to, float const* from, int count) {
    int const i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
    if (i < count)
        to[i] = to[i] / 2 + from[i];
}

using Kernel = void (*)(float const*, float*, int);

struct Case {
    char const* name;
    Kernel correct;
    Kernel wrong;
    unsigned threads = 128;
    unsigned blocks = 1;
    std::size_t shared_bytes = 0;
};

#define TWINS(kernel) #kernel, kernel < false>, kernel < true>
Case const cases[] = {
    {TWINS(oob_read)},
    {TWINS(oob_write)},
    {TWINS(oob_static_shared)},
    {TWINS(oob_dynamic_shared), 128, 1, 64 * sizeof(float)},
    {TWINS(misaligned), 32},
    {TWINS(divergent_barrier)},
    {TWINS(early_exit)},
    {TWINS(shuffle_against_barrier)},
    {TWINS(lane_outside_mask), 64},
    {TWINS(mixed_shuffles), 64},
    {TWINS(partial_mma), 64},
    {TWINS(uninitialized_shared)},
    {TWINS(missing_copy_wait)},
    {TWINS(read_after_write)},
    {TWINS(write_after_read)},
    {TWINS(missing_syncwarp)},
    {TWINS(sum_across_blocks), 32, 16},
    {TWINS(sum_in_shared)},
};
#undef TWINS

} // namespace

bool run(std::string const& name, Twin twin, float const* x, float* y, int count) {
    for (Case const& one : cases)
        if (one.name == name) {
            launch(one.name, twin == Twin::wrong ? one.wrong : one.correct, dim3(one.blocks),
                   dim3(one.threads), one.shared_bytes, nullptr, x, y, count);
            return true;
        }
    return false;
}

void add_to_half(float* to, float const* from, int count, cudaStream_t stream) {
    int const threads = 64;
    auto const blocks = static_cast<unsigned>((count + threads - 1) / threads);
    EVENER_LAUNCH(add_to_half_kernel, dim3(blocks), dim3(threads), 0, stream, to, from, count);
}

} // namespace evener::twins
