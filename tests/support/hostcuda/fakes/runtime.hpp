// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state behind the fake CUDA runtime, and what the fakes of cuBLASLt and NCCL use of it.
//
// Streams are queues that run as late as possible: when somebody synchronizes, a step at a time when
// somebody queries, and when nobody has called for a while (so that a host that blocks elsewhere
// does not stop its device). Which stream goes first is random by the seed; only events order
// streams. One lock guards everything; whoever waits for other processes gives it up meanwhile.

#include "hostcuda/scheduler.hpp"
#include <cuda_runtime_api.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace evener::hostcuda {

/// A wrong call, or a fault of a kernel: what the real runtime would return for it. `fatal`: so
/// will every later call.
class Fault : public Error {
  public:
    enum class Kind : bool { call, fatal };
    Fault(cudaError_t code, Kind kind, std::string const& what)
        : Error{what}, code_{code}, kind_{kind} {}
    cudaError_t code() const { return code_; }
    bool fatal() const { return kind_ == Kind::fatal; }

  private:
    cudaError_t code_;
    Kind kind_;
};

[[noreturn]] inline void refuse_call(cudaError_t code, std::string const& what) {
    throw Fault{code, Fault::Kind::call, what};
}

struct Range {
    std::byte const* begin = nullptr;
    std::byte const* end = nullptr;
};

enum class Outcome {
    done,     ///< the next of the stream may go on
    blocked,  ///< waits for another stream
    in_flight ///< waits for another process or thread
};

enum class Access : bool { none, device_memory };

/// One entry of a stream. `advance` is called, with the lock held, when the entry is at the front,
/// and again until it returns done.
struct Operation {
    std::function<Outcome()> advance;
    Access access = Access::device_memory;
    std::vector<Range> pinned; ///< host memory it reads or writes
    std::uint64_t number = 0;  ///< order of enqueueing in the process
};

/// Wraps what runs at once.
Operation at_once(std::function<void()> body);

struct Event {
    int device = 0;
    bool timed = true;
    std::uint64_t recorded = 0; ///< number of records enqueued
    std::uint64_t done = 0;     ///< the latest record that was reached
    std::chrono::steady_clock::time_point time{};
};

/// First come, first served: no thread that calls in a loop keeps another one out.
class FairLock {
  public:
    void lock();
    void unlock();

  private:
    std::mutex mutex_;
    std::condition_variable turn_;
    std::uint64_t next_ = 0;
    std::uint64_t serving_ = 0;
};

FairLock& runtime_lock();

/// Streams. All with the lock held.
cudaStream_t create_stream(unsigned flags);
void destroy_stream(cudaStream_t stream);
/// Null, cudaStreamLegacy: the legacy stream of the current device, whose operations run at once
/// after all that blocking streams hold.
void enqueue(cudaStream_t stream, Operation operation);
bool empty(cudaStream_t stream);
int device_of(cudaStream_t stream);
/// For planted faults: until this stream has done its next operation the others stand still, but not
/// for ever.
void run_ahead(cudaStream_t stream);
/// One operation of any stream, if one can run.
void make_step();
/// A step, and a moment without the lock: for loops that wait for other processes.
void give_way();
/// Steps until `finished`. Throws Fault when that cannot come; gives up the lock while operations
/// are in flight.
void run_until(std::function<bool()> const& finished);
void finish_device(int device);
/// The host is busy with the runtime: streams are left alone for a while.
void count_call();
/// Whether an operation that has not run touches this host memory.
bool in_use(Range range);

/// Memory.
struct Allocation {
    std::byte* begin = nullptr;
    std::size_t bytes = 0;
    bool host = false;
    bool registered = false; ///< the program's own memory
    int device = 0;
    std::byte* mapping = nullptr;
    std::size_t mapping_bytes = 0;
    Range range() const { return {begin, begin + bytes}; }
};

/// The allocation that holds this address, or null.
Allocation const* find_allocation(void const* address);
/// Throws Fault when [address, address + bytes) begins in an allocation and runs past its end.
void expect_within(void const* address, std::size_t bytes, char const* what);
/// While it lives kernels and copies can touch the memory of this device; the host never can.
class DeviceMemoryAccess {
  public:
    explicit DeviceMemoryAccess(int device);
    ~DeviceMemoryAccess();
    DeviceMemoryAccess(DeviceMemoryAccess const&) = delete;
    DeviceMemoryAccess& operator=(DeviceMemoryAccess const&) = delete;

  private:
    int device_;
};

/// Devices: EVENER_HOSTCUDA_DEVICES, EVENER_HOSTCUDA_MEMORY_MIB, EVENER_HOSTCUDA_PINNED_MIB.
int device_count();
std::size_t memory_bytes();
/// Pinned bytes that a process can have.
std::size_t pinned_limit();
std::size_t used_bytes(int device);
/// Of the calling thread.
int& current_device();

/// Runs `body` with the lock held and turns what it throws into a code; after a fatal fault, returns
/// its code at once.
cudaError_t guarded(std::function<void()> const& body);
/// Code of the fatal fault, or cudaSuccess. The lock is held.
cudaError_t fatal_code();
/// Remembers the fault and says it on standard error. The lock is held.
void remember(Fault const& fault);
/// Makes it what cudaGetLastError returns to this thread.
cudaError_t record_error(cudaError_t code);

} // namespace evener::hostcuda
