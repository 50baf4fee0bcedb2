// SPDX-License-Identifier: Apache-2.0
#pragma once

// A prepared operation of this plug-in, and what the factories need to make one.

#include "kernels/operands.hpp"
#include "kernels/table.hpp"

#include <dnnl.hpp>

#include <cstddef>
#include <memory>
#include <utility>

namespace evener::kernels::host {

/// Which products of bfloat16 blocks the CPU has (attention; oneDNN chooses for itself).
enum class BlockProducts { widened, avx512_bf16, amx };

/// What an opened device consists of. Made, used by `run` and destroyed on one thread.
struct Context {
    int threads = 1;
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    bool bfloat16_products = false; ///< oneDNN multiplies bfloat16 on this CPU
    BlockProducts block_products = BlockProducts::widened;
};

class Operation {
  public:
    virtual ~Operation() = default;
    virtual void run(Operands operands, std::byte* workspace) = 0;

    std::int64_t workspace_bytes = 0;
};

/// Wraps body(Operands, std::byte* workspace).
template <class Body>
std::unique_ptr<Operation> make_operation(Body body, std::int64_t workspace_bytes = 0) {
    struct Wrapped final : Operation {
        explicit Wrapped(Body b) : body{std::move(b)} {}
        void run(Operands operands, std::byte* workspace) override { body(operands, workspace); }
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

/// Cuts a workspace into arrays that start on cache lines.
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

} // namespace evener::kernels::host
