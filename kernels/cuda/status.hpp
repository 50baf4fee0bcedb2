// SPDX-License-Identifier: Apache-2.0
#pragma once

// Errors of the CUDA libraries as exceptions inside the plug-in, and as reasons at its table:
// "cudaMalloc failed (cudaErrorMemoryAllocation: out of memory)".

#include "kernels/check.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <exception>
#include <stdexcept>
#include <string>

namespace evener::kernels::cuda {

[[noreturn]] inline void fail(std::string const& call, char const* name, char const* text) {
    throw std::runtime_error{call.substr(0, call.find('(')) + " failed (" + name + ": " + text +
                             ")"};
}

/// Throws std::runtime_error unless the status is success. `call`: the function's name, with or
/// without arguments. The error that the run time remembers is cleared first, so that the next call
/// is not blamed.
inline void require(cudaError_t status, char const* call) {
    if (status == cudaSuccess)
        return;
    cudaGetLastError();
    fail(call, cudaGetErrorName(status), cudaGetErrorString(status));
}

inline void require(cublasStatus_t status, char const* call) {
    if (status != CUBLAS_STATUS_SUCCESS)
        fail(call, cublasLtGetStatusName(status), cublasLtGetStatusString(status));
}

/// What functions of the table return: done, or failed with a reason. 1 is left to `query` and
/// `ready`, where it means "not yet".
inline constexpr int done = 0;
inline constexpr int not_yet = 1;
inline constexpr int failed = 2;

/// Runs body(), which returns a code of the table; an exception becomes `failed` and a reason.
template <class Body>
int guarded(Reason* reason, Body&& body) {
    try {
        return body();
    } catch (std::exception const& error) {
        refuse(*reason, "%s", error.what());
        return failed;
    }
}

} // namespace evener::kernels::cuda

#define EVENER_CUDA(call) ::evener::kernels::cuda::require(call, #call)
