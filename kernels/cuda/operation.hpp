// SPDX-License-Identifier: Apache-2.0
#pragma once

// A prepared operation of this plug-in, and what the factories need to make one. Host code only:
// kernel files include it beside gpu.hpp.

#include "kernels/operands.hpp"
#include "kernels/table.hpp"

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <utility>

struct cublasLtContext;

namespace evener::kernels::cuda {

/// What a factory may ask of the opened device. Lives as long as the device.
struct Context {
    int ordinal = 0;
    int capability = 0; ///< 10 * major + minor
    int multiprocessors = 1;
    cudaStream_t compute = nullptr;      ///< where operations run; idle while they are prepared
    cublasLtContext* products = nullptr; ///< cuBLASLt's handle

    /// Tensor cores take bfloat16 (mma m16n8k16) and cp.async exists.
    bool has_bfloat16() const { return capability >= 80; }
};

class Operation {
  public:
    virtual ~Operation() = default;

    /// Enqueues on `stream`; allocates nothing, waits for nothing. `workspace` is device memory of
    /// workspace_bytes, aligned to 64 bytes, that nothing else uses until the operation is done.
    /// Throws std::exception when a launch fails.
    virtual void run(Operands operands, std::byte* workspace, cudaStream_t stream) = 0;

    std::int64_t workspace_bytes = 0;
};

using OperationPtr = std::unique_ptr<Operation>;

/// Wraps body(Operands, std::byte* workspace, cudaStream_t).
template <class Body>
OperationPtr make_operation(Body body, std::int64_t workspace_bytes = 0) {
    struct Wrapped final : Operation {
        explicit Wrapped(Body b) : body{std::move(b)} {}
        void run(Operands operands, std::byte* workspace, cudaStream_t stream) override {
            body(operands, workspace, stream);
        }
        Body body;
    };
    auto operation = std::make_unique<Wrapped>(std::move(body));
    operation->workspace_bytes = workspace_bytes;
    return operation;
}

/// Thrown by factories and caught by `prepare`: this shape cannot be computed here, and why.
struct Refused {
    Reason reason;
};

/// Cuts a workspace into arrays that start at multiples of 64 bytes.
class Carver {
  public:
    explicit Carver(std::byte* begin) : at_{begin} {}
    static constexpr std::int64_t bytes(std::int64_t size) { return (size + 63) / 64 * 64; }

    template <class T>
    T* take(std::int64_t elements) {
        auto* const taken = reinterpret_cast<T*>(at_);
        at_ += bytes(elements * static_cast<std::int64_t>(sizeof(T)));
        return taken;
    }

  private:
    std::byte* at_;
};

} // namespace evener::kernels::cuda
