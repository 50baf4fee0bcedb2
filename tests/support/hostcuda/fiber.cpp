// SPDX-License-Identifier: Apache-2.0

// The context switch saves the callee-saved registers of the System V x86-64 ABI and swaps stack
// pointers; swapcontext would make two system calls per switch for the signal mask.

#include "fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <new>

#if !defined(__x86_64__)
#error "the host execution layer switches stacks on x86-64 only"
#endif

asm(R"(
.pushsection .text
.type evener_hostcuda_switch, @function
.hidden evener_hostcuda_switch
.globl evener_hostcuda_switch
evener_hostcuda_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size evener_hostcuda_switch, .-evener_hostcuda_switch
.popsection
)");
extern "C" void evener_hostcuda_switch(void** save_stack_pointer, void* new_stack_pointer);

namespace evener::hostcuda {
namespace {

/// The stack of the OS thread that runs the grid, learnt from AddressSanitizer at the first switch.
[[maybe_unused]] void const* thread_stack = nullptr;
[[maybe_unused]] std::size_t thread_stack_bytes = 0;

constexpr int saved_registers = 6;

} // namespace

Fiber* create_fiber(void (*entry)(), unsigned pool) {
    auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    void* const memory = mmap(nullptr, stack_bytes + page, PROT_READ | PROT_WRITE,
                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
        throw std::bad_alloc{};
    mprotect(memory, page, PROT_NONE);
    auto* const fiber = new Fiber;
    fiber->stack = static_cast<char*>(memory) + page;
    fiber->pool = pool;
#if defined(EVENER_HOSTCUDA_TSAN)
    fiber->identity = __tsan_create_fiber(0); // about 5 ms each
#endif
    // From the top: a null return address that keeps the stack aligned for `entry`, the address of
    // `entry` for the `ret` of the switch, and zeros for the saved registers.
    auto** slot = reinterpret_cast<void**>(fiber->stack + stack_bytes) - 1;
    *slot = nullptr;
    *--slot = reinterpret_cast<void*>(entry);
    slot -= saved_registers;
    std::memset(slot, 0, saved_registers * sizeof(void*));
    fiber->stack_pointer = slot;
    return fiber;
}

void adopt_thread([[maybe_unused]] Fiber& main) {
    thread_stack = nullptr;
#if defined(EVENER_HOSTCUDA_TSAN)
    main.identity = __tsan_get_current_fiber();
#endif
}

#if defined(EVENER_HOSTCUDA_ASAN)
namespace {

void finish_switch(void* fake_stack) {
    void const* bottom = nullptr;
    std::size_t bytes = 0;
    __sanitizer_finish_switch_fiber(fake_stack, &bottom, &bytes);
    if (!thread_stack) {
        thread_stack = bottom;
        thread_stack_bytes = bytes;
    }
}

} // namespace

void switch_fiber(Fiber& from, Fiber& to) {
    __sanitizer_start_switch_fiber(&from.fake_stack, to.stack ? to.stack : thread_stack,
                                   to.stack ? stack_bytes : thread_stack_bytes);
    evener_hostcuda_switch(&from.stack_pointer, to.stack_pointer);
    finish_switch(from.fake_stack);
}

void enter_fiber() {
    finish_switch(nullptr);
}

#else

__attribute__((no_sanitize("thread"))) void switch_fiber(Fiber& from, Fiber& to) {
#if defined(EVENER_HOSTCUDA_TSAN)
    constexpr unsigned orders_nothing = 1;
    __tsan_switch_to_fiber(to.identity, orders_nothing);
#endif
    evener_hostcuda_switch(&from.stack_pointer, to.stack_pointer);
}

void enter_fiber() {}

#endif

} // namespace evener::hostcuda
