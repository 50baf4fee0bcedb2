// SPDX-License-Identifier: Apache-2.0
#pragma once

// Fibers: stacks that one OS thread switches between. A fiber lives for ever; when its CUDA thread
// is done it is parked and later runs another one.

#include "sanitizers.hpp"

#include <cstddef>

namespace evener::hostcuda {

#if defined(EVENER_HOSTCUDA_ASAN)
inline constexpr std::size_t stack_bytes = 256 * 1024; // redzones make frames larger
#else
inline constexpr std::size_t stack_bytes = 64 * 1024;
#endif

struct Fiber {
    char* stack = nullptr; ///< lowest address; a guard page lies below. Null: the OS thread's own
    void* stack_pointer = nullptr; ///< where it left off
    void* fake_stack = nullptr;    ///< AddressSanitizer's
    void* identity = nullptr;      ///< ThreadSanitizer's
    unsigned pool = 0;             ///< index of the pool it is parked in
};

/// A fiber that will run `entry`, which never returns. Throws std::bad_alloc.
Fiber* create_fiber(void (*entry)(), unsigned pool);

/// Makes `main` stand for the calling OS thread. Before the first switch of a grid.
void adopt_thread(Fiber& main);

/// Leaves `from` and goes on where `to` left off; returns when somebody switches back.
void switch_fiber(Fiber& from, Fiber& to);

/// First thing a new fiber does.
void enter_fiber();

} // namespace evener::hostcuda
