// SPDX-License-Identifier: Apache-2.0
#pragma once

// The words of CUDA C++ that a host compiler does not know: qualifiers become nothing, and the
// built-in variables are plain ones that the block scheduler sets at every switch.

#include <cuda_bf16.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__
#undef __constant__
#undef __launch_bounds__
#undef __forceinline__
#undef __noinline__
#undef __grid_constant__
#define __global__
#define __device__
#define __host__
#define __constant__ static
#define __launch_bounds__(...)
#define __forceinline__ inline
#define __grid_constant__
// __shared__ stays undefined: kernels write EVENER_SHARED, whose memory is checked.

// NOLINTBEGIN(readability-identifier-naming): CUDA's names
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;
// NOLINTEND(readability-identifier-naming)
