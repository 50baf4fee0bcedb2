// SPDX-License-Identifier: Apache-2.0

// Copies, fills and launches, queued on streams. Pinned memory that a copy will fill is poisoned
// when the copy is enqueued, unless something enqueued before still needs it.

#include "hostcuda/launch.hpp"
#include "runtime.hpp"

#include <cstring>
#include <memory>
#include <vector>

namespace evener::hostcuda {
namespace {

Range range_of(void const* address, std::size_t bytes) {
    auto const* const begin = static_cast<std::byte const*>(address);
    return {begin, begin + bytes};
}

void expect_direction(cudaMemcpyKind kind, bool to_device, bool from_device) {
    if (kind == cudaMemcpyDefault)
        return;
    bool const says_to = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    bool const says_from = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (says_to != to_device || says_from != from_device)
        refuse_call(cudaErrorInvalidMemcpyDirection,
                    "cudaMemcpyAsync: the direction does not match the addresses");
}

void enqueue_copy(void* dst, void const* src, std::size_t bytes, cudaMemcpyKind kind,
                  cudaStream_t stream) {
    if (bytes == 0)
        return;
    Allocation const* const to = find_allocation(dst);
    Allocation const* const from = find_allocation(src);
    expect_direction(kind, to && !to->host, from && !from->host);
    expect_within(dst, bytes, "cudaMemcpyAsync, destination");
    expect_within(src, bytes, "cudaMemcpyAsync, source");
    Operation operation;
    if (from) {
        operation = at_once([=] { std::memmove(dst, src, bytes); });
    } else { // pageable: staged now, as the real runtime may
        auto const* const begin = static_cast<std::byte const*>(src);
        auto const staged = std::make_shared<std::vector<std::byte>>(begin, begin + bytes);
        operation = at_once([=] { std::memcpy(dst, staged->data(), bytes); });
    }
    if (from && from->host)
        operation.pinned.push_back(range_of(src, bytes));
    if (to && to->host) {
        if (!in_use(range_of(dst, bytes)) && !(from && from->host))
            std::memset(dst, poison, bytes);
        operation.pinned.push_back(range_of(dst, bytes));
    }
    enqueue(stream, std::move(operation));
    if (!to) // pageable: the real call waits too
        run_until([=] { return empty(stream); });
}

/// Pinned memory that the launch may touch: any that an argument points into.
std::vector<Range> pinned_arguments(std::byte const* arguments, std::size_t bytes) {
    std::vector<Range> found;
    for (std::size_t at = 0; at + sizeof(void*) <= bytes; at += sizeof(void*)) {
        void const* value = nullptr;
        std::memcpy(&value, arguments + at, sizeof value);
        Allocation const* const allocation = find_allocation(value);
        if (allocation && allocation->host)
            found.push_back(allocation->range());
    }
    return found;
}

cudaError_t queue_launch(cudaStream_t stream, std::function<void()> grid,
                         std::byte const* arguments, std::size_t argument_bytes) {
    return guarded([&] {
        if (device_of(stream) != current_device())
            refuse_call(cudaErrorInvalidResourceHandle,
                        "a kernel launched on a stream of another device than the current one");
        Operation operation = at_once(std::move(grid));
        operation.pinned = pinned_arguments(arguments, argument_bytes);
        enqueue(stream, std::move(operation));
    });
}

[[maybe_unused]] bool const installed = [] {
    launch_queue = queue_launch;
    return true;
}();

} // namespace
} // namespace evener::hostcuda

using namespace evener::hostcuda;

extern "C" {

cudaError_t cudaMemcpyAsync(void* dst, void const* src, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    return guarded([=] { enqueue_copy(dst, src, bytes, kind, stream); });
}

cudaError_t cudaMemcpy(void* dst, void const* src, std::size_t bytes, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(dst, src, bytes, kind, nullptr);
}

cudaError_t cudaMemsetAsync(void* dst, int value, std::size_t bytes, cudaStream_t stream) {
    return guarded([=] {
        if (bytes == 0)
            return;
        expect_within(dst, bytes, "cudaMemsetAsync");
        enqueue(stream, at_once([=] { std::memset(dst, value, bytes); }));
    });
}

cudaError_t cudaMemset(void* dst, int value, std::size_t bytes) {
    return cudaMemsetAsync(dst, value, bytes, nullptr);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* argument) {
    return guarded([=] {
        Operation operation;
        operation.access = Access::none;
        // The function may wait for another thread of the host, so the lock is given up.
        operation.advance = [=, running = false]() mutable {
            if (running)
                return Outcome::in_flight;
            running = true;
            runtime_lock().unlock();
            function(argument);
            runtime_lock().lock();
            return Outcome::done;
        };
        enqueue(stream, std::move(operation));
    });
}

cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) {
    return guarded([] {});
}

} // extern "C"
