// SPDX-License-Identifier: Apache-2.0
#pragma once

// A launch: the arguments are copied as a device would copy them, and the grid runs when its stream
// comes to it.

#include "scheduler.hpp"
#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <tuple>

namespace evener::hostcuda {

/// The fake runtime queues the grid on the stream; without one it runs at once. `arguments` are the
/// launch's, as bytes: pointers among them may be to pinned memory.
using LaunchQueue = cudaError_t (*)(cudaStream_t stream, std::function<void()> grid,
                                    std::byte const* arguments, std::size_t argument_bytes);
inline LaunchQueue launch_queue = nullptr;

/// cudaErrorInvalidConfiguration when no device could launch this.
template <class... Parameters, class... Arguments>
cudaError_t enqueue(Launch const& launch, void (*kernel)(Parameters...), cudaStream_t stream,
                    Arguments&&... arguments) {
    struct Call {
        void (*kernel)(Parameters...);
        std::tuple<Parameters...> arguments;
    };
    auto const call = std::make_shared<Call>(
        Call{kernel, {static_cast<Parameters>(std::forward<Arguments>(arguments))...}});
    auto const run = [launch, call] {
        auto const thread = [](void* argument) {
            auto const& one = *static_cast<Call const*>(argument);
            std::apply(one.kernel, one.arguments);
        };
        run_grid(launch, thread, call.get());
    };
    if (!refusal(launch).empty())
        return cudaErrorInvalidConfiguration;
    if (launch_queue)
        return launch_queue(stream, run, reinterpret_cast<std::byte const*>(&call->arguments),
                            sizeof call->arguments);
    run();
    return cudaSuccess;
}

} // namespace evener::hostcuda
