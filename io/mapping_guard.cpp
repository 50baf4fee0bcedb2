// SPDX-License-Identifier: Apache-2.0
#include "io/mapping_guard.hpp"

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <mutex>
#include <utility>

namespace evener::io {

namespace {

/// What the handler reads, in any thread and at any time.
struct Slot {
    std::atomic<std::uintptr_t> begin = 0; ///< 0: free; written last
    std::atomic<std::size_t> bytes = 0;
    std::atomic<int> protection = 0;
    std::atomic<bool> lost = false;
};
static_assert(std::atomic<std::uintptr_t>::is_always_lock_free);

std::array<Slot, 64> slots;
std::mutex mutex; ///< of taking a slot and of `before`
struct sigaction before;

bool replace(Slot& slot, std::uintptr_t address) {
    std::uintptr_t const begin = slot.begin.load(std::memory_order_acquire);
    if (begin == 0 || address < begin || address - begin >= slot.bytes.load())
        return false;
    void* const zeros =
        mmap(reinterpret_cast<void*>(begin), slot.bytes.load(), slot.protection.load(),
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    if (zeros == MAP_FAILED)
        return false;
    slot.lost.store(true, std::memory_order_release);
    return true;
}

void on_bus_error(int, siginfo_t* info, void*) {
    for (Slot& slot : slots)
        if (replace(slot, reinterpret_cast<std::uintptr_t>(info->si_addr)))
            return;
    sigaction(SIGBUS, &before, nullptr); // the access is tried again and is the other's
}

/// Others (MPI libraries) may have set theirs since the last time.
void install_handler() {
    struct sigaction now {};
    sigaction(SIGBUS, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_bus_error)
        return;
    before = now;
    struct sigaction ours {};
    ours.sa_sigaction = on_bus_error;
    ours.sa_flags = SA_SIGINFO;
    sigemptyset(&ours.sa_mask);
    sigaction(SIGBUS, &ours, nullptr);
}

} // namespace

MappingGuard::MappingGuard(std::span<std::byte const> mapping, int protection) {
    std::lock_guard const lock{mutex};
    install_handler();
    for (std::size_t i = 0; i < slots.size(); ++i)
        if (slots[i].begin.load() == 0) {
            slots[i].bytes.store(mapping.size());
            slots[i].protection.store(protection);
            slots[i].lost.store(false);
            slots[i].begin.store(reinterpret_cast<std::uintptr_t>(mapping.data()),
                                 std::memory_order_release);
            slot_ = static_cast<int>(i);
            return;
        }
}

MappingGuard::MappingGuard(MappingGuard&& other) noexcept
    : slot_{std::exchange(other.slot_, none)} {}

MappingGuard& MappingGuard::operator=(MappingGuard&& other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
}

MappingGuard::~MappingGuard() {
    if (slot_ != none)
        slots[static_cast<std::size_t>(slot_)].begin.store(0, std::memory_order_release);
}

bool MappingGuard::lost() const noexcept {
    return slot_ != none &&
           slots[static_cast<std::size_t>(slot_)].lost.load(std::memory_order_acquire);
}

} // namespace evener::io
