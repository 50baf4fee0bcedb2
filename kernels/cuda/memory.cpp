// SPDX-License-Identifier: Apache-2.0

// Memory, copies and events of the table. Every function makes the device current on its thread
// first, since the compute and the transport thread both call.

#include "kernels/cuda/open_device.hpp"

namespace evener::kernels::cuda {
namespace {

cudaEvent_t handle_of(Event* event) {
    return reinterpret_cast<cudaEvent_t>(event);
}

int allocate(Device* device, std::int64_t bytes, void** memory, Reason* reason) {
    return guarded(reason, [&] {
        use(device);
        EVENER_CUDA(cudaMalloc(memory, static_cast<std::size_t>(bytes)));
        return done;
    });
}

void deallocate(Device* device, void* memory) {
    cudaSetDevice(unwrap(device).context.ordinal);
    cudaFree(memory);
}

/// Pinned memory has the same address on the device, so operations may be given it.
int allocate_pinned(Device* device, std::int64_t bytes, void** memory, Reason* reason) {
    return guarded(reason, [&] {
        use(device);
        EVENER_CUDA(cudaMallocHost(memory, static_cast<std::size_t>(bytes)));
        return done;
    });
}

void deallocate_pinned(Device* device, void* memory) {
    cudaSetDevice(unwrap(device).context.ordinal);
    cudaFreeHost(memory);
}

int free_bytes(Device* device, std::int64_t* bytes, Reason* reason) {
    return guarded(reason, [&] {
        use(device);
        std::size_t free = 0;
        std::size_t total = 0;
        EVENER_CUDA(cudaMemGetInfo(&free, &total));
        *bytes = static_cast<std::int64_t>(free);
        return done;
    });
}

int copy(Device* device, StreamKind stream, void* dst, void const* src, std::int64_t bytes,
         Reason* reason) {
    return guarded(reason, [&] {
        OpenDevice const& open = use(device);
        if (bytes > 0)
            EVENER_CUDA(cudaMemcpyAsync(dst, src, static_cast<std::size_t>(bytes),
                                        cudaMemcpyDefault, open.stream(stream)));
        return done;
    });
}

/// A thread that waits for an event sleeps: the host's cores have other ranks' work to do.
int create_event(Device* device, Event** event, Reason* reason) {
    return guarded(reason, [&] {
        use(device);
        cudaEvent_t created = nullptr;
        EVENER_CUDA(cudaEventCreateWithFlags(&created, cudaEventBlockingSync));
        *event = reinterpret_cast<Event*>(created);
        return done;
    });
}

void destroy_event(Device* device, Event* event) {
    cudaSetDevice(unwrap(device).context.ordinal);
    cudaEventDestroy(handle_of(event));
}

int record(Device* device, Event* event, StreamKind stream, Reason* reason) {
    return guarded(reason, [&] {
        OpenDevice const& open = use(device);
        EVENER_CUDA(cudaEventRecord(handle_of(event), open.stream(stream)));
        return done;
    });
}

int wait(Device* device, StreamKind stream, Event* event, Reason* reason) {
    return guarded(reason, [&] {
        OpenDevice const& open = use(device);
        EVENER_CUDA(cudaStreamWaitEvent(open.stream(stream), handle_of(event), 0));
        return done;
    });
}

int query(Device* device, Event* event, Reason* reason) {
    return guarded(reason, [&] {
        use(device);
        cudaError_t const status = cudaEventQuery(handle_of(event));
        if (status == cudaErrorNotReady) {
            cudaGetLastError(); // "not ready" is remembered as an error
            return not_yet;
        }
        require(status, "cudaEventQuery");
        return done;
    });
}

int synchronize(Device* device, Event* event, Reason* reason) {
    return guarded(reason, [&] {
        use(device);
        EVENER_CUDA(cudaEventSynchronize(handle_of(event)));
        return done;
    });
}

int elapsed(Device* device, Event* begin, Event* end, double* seconds, Reason* reason) {
    return guarded(reason, [&] {
        use(device);
        float milliseconds = 0;
        EVENER_CUDA(cudaEventElapsedTime(&milliseconds, handle_of(begin), handle_of(end)));
        *seconds = 1e-3 * static_cast<double>(milliseconds);
        return done;
    });
}

} // namespace

MemoryTable const* memory_table() {
    static constexpr MemoryTable table{
        count_devices, describe,    allocate,     deallocate,    allocate_pinned, deallocate_pinned,
        free_bytes,    copy,        create_event, destroy_event, record,          wait,
        query,         synchronize, elapsed,
    };
    return &table;
}

} // namespace evener::kernels::cuda
