// SPDX-License-Identifier: Apache-2.0

// Shared memory of a block: fresh heap blocks of exact size, poisoned; and cp.async into it.

#include "block.hpp"

#include <cstdlib>
#include <cstring>
#include <new>

namespace evener::hostcuda {
namespace {

constexpr std::size_t copy_bytes = 16;

/// Takes the oldest copy of the groups that must be complete.
bool next_copy(std::size_t keep, AsyncCopy& copy) {
    Unseen const unseen;
    Thread& self = *grid().current;
    while (self.groups.size() > keep && self.groups.front() == 0)
        self.groups.erase(self.groups.begin());
    if (self.groups.size() <= keep)
        return false;
    copy = self.copies.front();
    self.copies.erase(self.copies.begin());
    for (std::size_t& end : self.groups)
        --end;
    return true;
}

} // namespace

SharedMemory poisoned_memory(std::size_t bytes) {
    constexpr std::size_t alignment = 128;
    void* memory = nullptr;
    if (posix_memalign(&memory, alignment, bytes ? bytes : 1) != 0)
        throw std::bad_alloc{};
    std::memset(memory, poison, bytes);
    return SharedMemory{static_cast<char*>(memory)};
}

void* dynamic_shared() {
    Unseen const unseen;
    return grid().dynamic.get();
}

void* static_shared(void const* key, std::size_t bytes) {
    Unseen const unseen;
    Grid& g = grid();
    SharedMemory& memory = g.statics[key];
    if (!memory) {
        memory = poisoned_memory(bytes);
        g.static_bytes += bytes;
    }
    return memory.get();
}

void start_async_copy(void* dst, void const* src, bool valid) {
    if (capability() < 80)
        fail("cp.async needs compute capability 8.0");
    auto const address =
        reinterpret_cast<std::uintptr_t>(dst) | reinterpret_cast<std::uintptr_t>(src);
    if (address % copy_bytes != 0)
        fail("cp.async: an address is not aligned to 16 bytes");
    std::memset(dst, poison, copy_bytes);
    Unseen const unseen;
    grid().current->copies.push_back({dst, src, valid});
}

void commit_async_copies() {
    Unseen const unseen;
    Thread& self = *grid().current;
    self.groups.push_back(self.copies.size());
}

void wait_async_copies(std::size_t keep) {
    for (AsyncCopy copy{}; next_copy(keep, copy);) {
        if (copy.valid)
            std::memcpy(copy.dst, copy.src, copy_bytes);
        else
            std::memset(copy.dst, 0, copy_bytes);
    }
}

} // namespace evener::hostcuda
