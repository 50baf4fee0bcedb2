// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one header kernel sources include. Under nvcc it is CUDA; under a C++ compiler the host
// execution layer of the tests, which runs the same source on the CPU. Kernels therefore declare
// shared memory and launch by these macros:
//   EVENER_SHARED(float, tile, [32][33]);        static shared memory: float tile[32][33]
//   EVENER_SHARED_DYNAMIC(float, rows);          float* to the launch's shared memory, 128-byte
//                                                aligned
//   EVENER_LAUNCH(kernel, grid, block, shared_bytes, stream, arguments ...);
//                                                template-ids with commas in parentheses. Throws
//                                                LaunchError
// Neither relies on blocks running side by side, nor on threads of a warp running in step.

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#define EVENER_SHARED(T, name, ...) __shared__ T name __VA_ARGS__
#define EVENER_SHARED_DYNAMIC(T, name)                                                             \
    extern __shared__ __align__(128) unsigned char evener_dynamic_shared[];                        \
    T* const name = reinterpret_cast<T*>(evener_dynamic_shared)
#else
#include "hostcuda/execution.hpp"
#define EVENER_SHARED(T, name, ...)                                                                \
    static char evener_key_##name;                                                                 \
    auto& name = *static_cast<std::type_identity_t<T __VA_ARGS__>*>(                               \
        ::evener::hostcuda::static_shared(&evener_key_##name, sizeof(T __VA_ARGS__)))
#define EVENER_SHARED_DYNAMIC(T, name)                                                             \
    T* const name = static_cast<T*>(::evener::hostcuda::dynamic_shared())
#endif

#define EVENER_LAUNCH(kernel, ...) ::evener::kernels::cuda::launch(#kernel, kernel, __VA_ARGS__)

namespace evener::kernels::cuda {

using bf16 = __nv_bfloat16;

/// A launch that the runtime refused: which kernel and why.
class LaunchError : public std::runtime_error {
  public:
    LaunchError(std::string const& kernel, cudaError_t code)
        : std::runtime_error{"kernel '" + kernel + "' was not launched (" +
                             cudaGetErrorString(code) + ")"},
          code_{code} {}

    cudaError_t code() const { return code_; }

  private:
    cudaError_t code_;
};

#if defined(__CUDACC__)

template <class... Parameters, class... Arguments>
void launch(char const* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
    // Beyond 48 KiB a kernel has to ask, once per device; asking again costs next to nothing.
    constexpr std::size_t unasked = 48 * 1024;
    auto code = cudaSuccess;
    if (shared_bytes > unasked)
        code = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                    static_cast<int>(shared_bytes));
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    if (code == cudaSuccess)
        code = cudaLaunchKernelEx(&config, kernel,
                                  static_cast<Parameters>(std::forward<Arguments>(arguments))...);
    if (code != cudaSuccess)
        throw LaunchError{name, code};
}

#else

template <class... Parameters, class... Arguments>
void launch(char const* name, void (*kernel)(Parameters...), dim3 grid, dim3 block,
            std::size_t shared_bytes, cudaStream_t stream, Arguments&&... arguments) {
    auto const code = hostcuda::enqueue({name, grid, block, shared_bytes}, kernel, stream,
                                        std::forward<Arguments>(arguments)...);
    if (code != cudaSuccess)
        throw LaunchError{name, code};
}

#endif

} // namespace evener::kernels::cuda
