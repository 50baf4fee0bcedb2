// SPDX-License-Identifier: Apache-2.0

// Streams and events of the fake runtime under CUDA's names.

#include "faults.hpp"
#include "runtime.hpp"

struct CUevent_st {
    std::shared_ptr<evener::hostcuda::Event> event;
};

namespace evener::hostcuda {
namespace {

Event& known(cudaEvent_t event) {
    if (!event)
        refuse_call(cudaErrorInvalidResourceHandle, "an event that does not exist");
    return *event->event;
}

void record(cudaEvent_t handle, cudaStream_t stream) {
    Event& event = known(handle);
    if (device_of(stream) != event.device)
        refuse_call(cudaErrorInvalidResourceHandle,
                    "an event recorded on a stream of another device");
    std::uint64_t const number = ++event.recorded;
    Operation operation = at_once([shared = handle->event, number] {
        shared->done = std::max(shared->done, number);
        shared->time = std::chrono::steady_clock::now();
    });
    operation.access = Access::none;
    enqueue(stream, std::move(operation));
}

void wait(cudaStream_t stream, cudaEvent_t handle) {
    std::uint64_t const number = known(handle).recorded; // later records do not matter
    if (known(handle).done >= number)
        return;
    if (fault_now(FaultKind::dropped_wait)) {
        run_ahead(stream);
        return;
    }
    Operation operation;
    operation.access = Access::none;
    operation.advance = [shared = handle->event, number] {
        return shared->done >= number ? Outcome::done : Outcome::blocked;
    };
    enqueue(stream, std::move(operation));
}

void expect_reached(Event const& event, char const* which) {
    if (!event.timed || event.recorded == 0)
        refuse_call(cudaErrorInvalidResourceHandle,
                    std::string{"cudaEventElapsedTime: the "} + which +
                        " event was never recorded or takes no time");
    if (event.done < event.recorded)
        throw Fault{cudaErrorNotReady, Fault::Kind::call, "an event is not reached yet"};
}

} // namespace
} // namespace evener::hostcuda

using namespace evener::hostcuda;

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    return guarded([=] { *stream = create_stream(flags); });
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    return guarded([=] {
        *least = 0;
        *greatest = -5;
    });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    return guarded([=] { destroy_stream(stream); });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    return guarded([=] { run_until([=] { return empty(stream); }); });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    return guarded([=] {
        if (!empty(stream))
            make_step();
        if (!empty(stream))
            throw Fault{cudaErrorNotReady, Fault::Kind::call, "the stream is not empty yet"};
    });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    return guarded([=] { wait(stream, event); });
}

cudaError_t cudaDeviceSynchronize() {
    return guarded([] { finish_device(current_device()); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    return guarded([=] {
        auto shared = std::make_shared<Event>();
        shared->device = current_device();
        shared->timed = !(flags & cudaEventDisableTiming);
        *event = new CUevent_st{std::move(shared)};
    });
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    return guarded([=] {
        known(event);
        delete event; // records and waits that are queued keep what they need
    });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    return guarded([=] { record(event, stream); });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    return guarded([=] {
        auto const shared = event->event;
        std::uint64_t const number = known(event).recorded;
        run_until([=] { return shared->done >= number; });
    });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
    return guarded([=] {
        Event const& shared = known(event);
        if (shared.done < shared.recorded)
            make_step();
        if (shared.done < shared.recorded && !fault_now(FaultKind::early_event))
            throw Fault{cudaErrorNotReady, Fault::Kind::call, "the event is not reached yet"};
    });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    return guarded([=] {
        expect_reached(known(begin), "first");
        expect_reached(known(end), "second");
        std::chrono::duration<float, std::milli> const elapsed =
            end->event->time - begin->event->time;
        *milliseconds = elapsed.count();
    });
}

} // extern "C"
