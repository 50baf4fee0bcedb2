// SPDX-License-Identifier: Apache-2.0

// The fake runtime: what correct programs rely on, and what it says of wrong ones. Two devices of
// 64 MiB (see CMakeLists.txt).

#include "hostcuda/scheduler.hpp"
#include "hostcuda/twins/twins.hpp"
#include <cuda_runtime.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

namespace evener::hostcuda {
namespace {

using testing::HasSubstr;

constexpr std::size_t mib = std::size_t{1} << 20;
constexpr std::size_t context_bytes = 16 * mib;
constexpr std::size_t count = 256;
constexpr std::size_t bytes = count * sizeof(float);

#define EXPECT_OK(call) EXPECT_EQ((call), cudaSuccess) << #call

float* device_floats() {
    float* memory = nullptr;
    EXPECT_OK(cudaMalloc(&memory, bytes));
    return memory;
}

float* pinned_floats(float value) {
    float* memory = nullptr;
    EXPECT_OK(cudaMallocHost(&memory, bytes));
    std::fill(memory, memory + count, value);
    return memory;
}

cudaStream_t new_stream() {
    cudaStream_t stream = nullptr;
    EXPECT_OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

template <class Body>
void with_seeds(Body const& body) {
    for (std::uint64_t seed = 0; seed < 32; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        set_seed(seed);
        body();
    }
    set_seed(0);
}

TEST(Memory, IsAsLargeAsTheDevice) {
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_OK(cudaMemGetInfo(&free, &total));
    EXPECT_EQ(total, 64 * mib);
    EXPECT_EQ(free, total - context_bytes);

    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, free + 1), cudaErrorMemoryAllocation);
    EXPECT_EQ(memory, nullptr);
    EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
    EXPECT_EQ(cudaGetLastError(), cudaSuccess);
    EXPECT_OK(cudaMalloc(&memory, free));
    std::size_t left = 1;
    EXPECT_OK(cudaMemGetInfo(&left, &total));
    EXPECT_EQ(left, 0u);
    EXPECT_OK(cudaFree(memory));
    EXPECT_OK(cudaMemGetInfo(&left, &total));
    EXPECT_EQ(left, free);
}

TEST(Memory, OfDevicesIsSeparate) {
    void* memory = nullptr;
    std::size_t free = 0;
    std::size_t total = 0;
    EXPECT_OK(cudaMalloc(&memory, 40 * mib));
    EXPECT_OK(cudaSetDevice(1));
    EXPECT_OK(cudaMemGetInfo(&free, &total));
    EXPECT_EQ(free, total - context_bytes);
    EXPECT_OK(cudaSetDevice(0));
    EXPECT_OK(cudaFree(memory));
}

TEST(Devices, SayWhatTheyAre) {
    int devices = 0;
    EXPECT_OK(cudaGetDeviceCount(&devices));
    EXPECT_EQ(devices, 2);
    cudaDeviceProp first{};
    cudaDeviceProp second{};
    EXPECT_OK(cudaGetDeviceProperties(&first, 0));
    EXPECT_OK(cudaGetDeviceProperties(&second, 1));
    EXPECT_EQ(first.totalGlobalMem, 64 * mib);
    EXPECT_EQ(first.major, 9);
    EXPECT_NE(std::memcmp(&first.uuid, &second.uuid, sizeof first.uuid), 0);
    char bus[32];
    EXPECT_OK(cudaDeviceGetPCIBusId(bus, sizeof bus, 1));
    EXPECT_STREQ(bus, "0000:02:00.0");
    EXPECT_EQ(cudaSetDevice(2), cudaErrorInvalidDevice);
    EXPECT_THAT(cudaGetErrorString(cudaErrorInvalidDevice), HasSubstr("device 2 of 2"));
}

TEST(Devices, TakeNoLaunchesOnStreamsOfOthers) {
    cudaStream_t const stream = new_stream();
    float* const memory = device_floats();
    EXPECT_OK(cudaSetDevice(1));
    EXPECT_THROW(twins::add_to_half(memory, memory, count, stream), std::runtime_error);
    cudaEvent_t event = nullptr;
    EXPECT_OK(cudaEventCreate(&event));
    EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
    EXPECT_OK(cudaSetDevice(0));
    EXPECT_OK(cudaEventDestroy(event));
    EXPECT_OK(cudaStreamDestroy(stream));
    EXPECT_OK(cudaFree(memory));
}

TEST(Copies, RunLateAndPoisonWhatTheyWillFill) {
    with_seeds([] {
        cudaStream_t const stream = new_stream();
        float* const memory = device_floats();
        float* const in = pinned_floats(3);
        float* const out = pinned_floats(4);
        EXPECT_OK(cudaMemcpyAsync(memory, in, bytes, cudaMemcpyHostToDevice, stream));
        EXPECT_OK(cudaMemcpyAsync(out, memory, bytes, cudaMemcpyDeviceToHost, stream));
        EXPECT_TRUE(std::isnan(out[count - 1]));
        EXPECT_OK(cudaStreamSynchronize(stream));
        EXPECT_EQ(out[count - 1], 3);
        EXPECT_OK(cudaStreamDestroy(stream));
        EXPECT_OK(cudaFree(memory));
        EXPECT_OK(cudaFreeHost(in));
        EXPECT_OK(cudaFreeHost(out));
    });
}

TEST(Copies, LeaveAloneWhatAnEarlierOperationStillReads) {
    with_seeds([] {
        cudaStream_t const stream = new_stream();
        float* const first = device_floats();
        float* const second = device_floats();
        float* const pinned = pinned_floats(5);
        EXPECT_OK(cudaMemsetAsync(second, 0, bytes, stream));
        // A copy out of the pinned memory and a kernel that reads it, then a copy into it.
        EXPECT_OK(cudaMemcpyAsync(first, pinned, bytes, cudaMemcpyHostToDevice, stream));
        twins::add_to_half(second, pinned, count, stream);
        EXPECT_OK(cudaMemcpyAsync(pinned, first, bytes, cudaMemcpyDeviceToHost, stream));
        std::vector<float> result(count);
        EXPECT_OK(cudaMemcpyAsync(result.data(), second, bytes, cudaMemcpyDeviceToHost, stream));
        EXPECT_OK(cudaStreamSynchronize(stream));
        EXPECT_EQ(pinned[7], 5);
        EXPECT_EQ(result[7], 5);
        EXPECT_OK(cudaStreamDestroy(stream));
        EXPECT_OK(cudaFree(first));
        EXPECT_OK(cudaFree(second));
        EXPECT_OK(cudaFreeHost(pinned));
    });
}

TEST(Copies, OfWrongRangesAndDirectionsAreRefused) {
    cudaStream_t const stream = new_stream();
    float* const memory = device_floats();
    float* const pinned = pinned_floats(1);
    EXPECT_EQ(cudaMemcpyAsync(memory, pinned, bytes + 1, cudaMemcpyHostToDevice, stream),
              cudaErrorInvalidValue);
    EXPECT_THAT(cudaGetErrorString(cudaErrorInvalidValue),
                HasSubstr("destination: the range runs past the end of its allocation"));
    EXPECT_EQ(cudaMemcpyAsync(pinned, memory, bytes, cudaMemcpyHostToDevice, stream),
              cudaErrorInvalidMemcpyDirection);
    EXPECT_OK(cudaStreamDestroy(stream));
    EXPECT_OK(cudaFree(memory));
    EXPECT_OK(cudaFreeHost(pinned));
}

TEST(Copies, KnowRegisteredMemory) {
    std::vector<float> own(count, 2);
    EXPECT_OK(cudaHostRegister(own.data(), bytes, cudaHostRegisterDefault));
    EXPECT_EQ(cudaHostRegister(own.data(), bytes, cudaHostRegisterDefault),
              cudaErrorHostMemoryAlreadyRegistered);
    cudaStream_t const stream = new_stream();
    float* const memory = device_floats();
    EXPECT_OK(cudaMemcpyAsync(memory, own.data(), bytes, cudaMemcpyHostToDevice, stream));
    own[0] = 9; // too early, and seen: the copy is late
    EXPECT_OK(cudaStreamSynchronize(stream));
    EXPECT_OK(cudaMemcpyAsync(own.data(), memory, bytes, cudaMemcpyDeviceToHost, stream));
    EXPECT_OK(cudaStreamSynchronize(stream));
    EXPECT_EQ(own[0], 9);
    EXPECT_OK(cudaHostUnregister(own.data()));
    EXPECT_EQ(cudaHostUnregister(own.data()), cudaErrorHostMemoryNotRegistered);
    EXPECT_OK(cudaStreamDestroy(stream));
    EXPECT_OK(cudaFree(memory));
}

TEST(Events, OrderStreamsAndTakeTime) {
    with_seeds([] {
        cudaStream_t const first = new_stream();
        cudaStream_t const second = new_stream();
        cudaEvent_t begin = nullptr;
        cudaEvent_t end = nullptr;
        EXPECT_OK(cudaEventCreate(&begin));
        EXPECT_OK(cudaEventCreate(&end));
        float* const memory = device_floats();
        float* const in = pinned_floats(6);
        float* const out = pinned_floats(0);
        float milliseconds = -1;
        EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorInvalidResourceHandle);
        EXPECT_OK(cudaEventQuery(begin)); // never recorded
        EXPECT_OK(cudaEventRecord(begin, first));
        EXPECT_OK(cudaMemcpyAsync(memory, in, bytes, cudaMemcpyHostToDevice, first));
        EXPECT_OK(cudaEventRecord(end, first));
        EXPECT_EQ(cudaEventElapsedTime(&milliseconds, begin, end), cudaErrorNotReady);
        EXPECT_OK(cudaStreamWaitEvent(second, end, 0));
        EXPECT_OK(cudaMemcpyAsync(out, memory, bytes, cudaMemcpyDeviceToHost, second));
        EXPECT_OK(cudaStreamSynchronize(second));
        EXPECT_EQ(out[0], 6);
        EXPECT_OK(cudaEventQuery(end));
        EXPECT_OK(cudaEventElapsedTime(&milliseconds, begin, end));
        EXPECT_GE(milliseconds, 0);
        EXPECT_OK(cudaStreamDestroy(first));
        EXPECT_OK(cudaStreamDestroy(second));
        EXPECT_OK(cudaEventDestroy(begin));
        EXPECT_OK(cudaEventDestroy(end));
        EXPECT_OK(cudaFree(memory));
        EXPECT_OK(cudaFreeHost(in));
        EXPECT_OK(cudaFreeHost(out));
    });
}

TEST(Progress, IsMadeWhenTheHostWaitsElsewhere) {
    cudaStream_t const stream = new_stream();
    std::atomic<bool> reached = false;
    auto const reach = [](void* argument) { *static_cast<std::atomic<bool>*>(argument) = true; };
    EXPECT_OK(cudaLaunchHostFunc(stream, reach, &reached));
    while (!reached) // hangs without progress
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
    EXPECT_OK(cudaStreamDestroy(stream));
}

TEST(Progress, OfOtherThreadsIsNotHeldUpByAHostFunction) {
    cudaStream_t const blocked = new_stream();
    cudaStream_t const other = new_stream();
    std::atomic<bool> may_go = false;
    auto const wait = [](void* argument) {
        while (!*static_cast<std::atomic<bool>*>(argument))
            std::this_thread::yield();
    };
    EXPECT_OK(cudaLaunchHostFunc(blocked, wait, &may_go));
    std::thread waiter{[&] { EXPECT_OK(cudaStreamSynchronize(blocked)); }};
    float* const memory = device_floats();
    EXPECT_OK(cudaMemsetAsync(memory, 0, bytes, other));
    may_go = true;
    EXPECT_OK(cudaStreamSynchronize(other));
    waiter.join();
    EXPECT_OK(cudaStreamDestroy(blocked));
    EXPECT_OK(cudaStreamDestroy(other));
    EXPECT_OK(cudaFree(memory));
}

/// The last: nothing works after it.
TEST(ZFaults, OfAKernelStayAndAreTold) {
    std::vector<float> x(512);
    std::vector<float> y(512);
    EXPECT_THROW(twins::run("divergent_barrier", twins::Twin::wrong, x.data(), y.data(), 512),
                 std::runtime_error);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_THAT(cudaGetErrorString(cudaErrorLaunchFailure),
                HasSubstr("unspecified launch failure: kernel 'divergent_barrier', block (0, 0, "
                          "0): divergent __syncthreads"));
}

} // namespace
} // namespace evener::hostcuda
