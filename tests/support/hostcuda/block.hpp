// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state of the running grid, shared by scheduler.cpp, barriers.cpp and shared_memory.cpp. One
// grid runs at a time in a process, on one OS thread.

#include "scheduler.hpp"

#include <map>
#include <random>
#include <span>

namespace evener::hostcuda {

enum class State : std::uint8_t { unstarted, ready, running, at_barrier, at_collective, done };

struct AsyncCopy {
    void* dst;
    void const* src;
    bool valid; ///< else the destination becomes zero
};

struct Thread {
    uint3 index{};
    unsigned linear = 0;
    Fiber* fiber = nullptr;
    State state = State::unstarted;

    // What it waits in.
    char const* operation = "";
    Location location{};
    void* in = nullptr;
    void* out = nullptr;
    unsigned mask = 0;
    Resolver resolve = nullptr;

    unsigned barriers = 0;      ///< it took part in
    unsigned ordered_calls = 0; ///< of warp collectives that order memory
    std::vector<AsyncCopy> copies;
    std::vector<std::size_t> groups; ///< committed; number of copies up to each one's end
};

struct Warp {
    unsigned waiting = 0; ///< lanes in a collective
    unsigned live = 0;    ///< lanes that have not exited
};

struct FreeMemory {
    void operator()(void* memory) const { std::free(memory); }
};
using SharedMemory = std::unique_ptr<char, FreeMemory>;

struct Grid {
    Launch launch;
    void (*body)(void*) = nullptr;
    void* argument = nullptr;
    bool active = false;
    std::string error;
    std::mt19937_64 random;
    std::uint64_t launches = 0;
    std::uint64_t blocks = 0;

    Fiber main;
    Fiber* running = nullptr;
    /// Parked fibers. With ThreadSanitizer neighbouring blocks use different pools, so that they
    /// share no identity.
    std::vector<Fiber*> parked[2];
    unsigned pool = 0;

    // Of the running block.
    std::vector<Thread> threads;
    std::vector<Warp> warps;
    std::vector<unsigned> order; ///< in which threads start
    std::size_t next_start = 0;
    std::vector<Thread*> ready; ///< taken from the back
    Thread* current = nullptr;
    unsigned live = 0;
    unsigned at_barrier = 0;
    std::map<void const*, SharedMemory> statics;
    std::size_t static_bytes = 0;
    SharedMemory dynamic;

    // Objects to release and acquire: start and end of the grid, and a slice per block whose first
    // two are the block's barriers, then two per warp. Two, so that a barrier orders nothing with
    // the phase after the next one.
    char start_order = 0;
    char end_order = 0;
    char order_objects[1 << 16] = {};
    char* block_order = order_objects;
};

/// Never destroyed: abandoned fibers may point into it.
Grid& grid();

/// Of `bytes` exactly, so that AddressSanitizer's redzone begins right behind it.
SharedMemory poisoned_memory(std::size_t bytes);

/// The next thread to run, or null when all wait or are done.
Thread* pick();
/// A parked fiber, or a new one.
Fiber* take_fiber();
void set_current(Thread& thread);
/// The current thread waits; returns when it was made ready and picked.
void wait_current();
/// `threads` in ascending order.
void make_ready(std::span<Thread* const> threads);
/// After a thread exited: what only it was missing in goes on.
void complete_without(Thread const& exited);
/// "\n    3 threads, first 5: __syncthreads at file.cu:12" for each place where threads wait.
std::string waiting_report();
std::string place(Location const& location);

} // namespace evener::hostcuda
