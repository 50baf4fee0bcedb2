// SPDX-License-Identifier: Apache-2.0

// Device and pinned memory. Device memory is out of the host's reach outside of operations: pages
// without access, or poisoned for AddressSanitizer. With ThreadSanitizer it is plain memory.

#include "hostcuda/sanitizers.hpp"
#include "runtime.hpp"
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>

namespace evener::hostcuda {
namespace {

/// What a CUDA context takes of a device before the program allocates anything.
constexpr std::size_t context_bytes = std::size_t{16} << 20;
constexpr std::size_t alignment = 256;

struct Memory {
    std::map<std::byte const*, Allocation> allocations; ///< by first address
    std::map<int, std::size_t> used;                    ///< by device
    std::map<int, std::size_t> peak;                    ///< by device, without the context
    std::size_t pinned = 0;
    std::map<int, int> accesses; ///< open DeviceMemoryAccess by device
};

Memory& memory() {
    static Memory& instance = *new Memory;
    return instance;
}

/// EVENER_HOSTCUDA_REACH=1: the host reaches device memory, as an MPI that takes such addresses does.
bool within_reach() {
    static bool const reach = [] {
        char const* const text = std::getenv("EVENER_HOSTCUDA_REACH");
        return text && *text == '1';
    }();
    return reach;
}

void allow(Allocation const& allocation, bool allowed) {
    if (allocation.host || within_reach())
        return;
#if defined(EVENER_HOSTCUDA_ASAN)
    if (allowed)
        __asan_unpoison_memory_region(allocation.begin, allocation.bytes);
    else
        __asan_poison_memory_region(allocation.begin, allocation.bytes);
#elif !defined(EVENER_HOSTCUDA_TSAN)
    mprotect(allocation.mapping, allocation.mapping_bytes,
             allowed ? PROT_READ | PROT_WRITE : PROT_NONE);
#else
    static_cast<void>(allowed);
#endif
}

void allow_device(int device, bool allowed) {
    for (auto const& [begin, allocation] : memory().allocations)
        if (allocation.device == device)
            allow(allocation, allowed);
}

#if defined(EVENER_HOSTCUDA_ASAN) || defined(EVENER_HOSTCUDA_TSAN)

bool map_memory(Allocation& allocation) {
    void* address = nullptr;
    if (posix_memalign(&address, alignment, allocation.bytes ? allocation.bytes : 1) != 0)
        return false;
    allocation.begin = allocation.mapping = static_cast<std::byte*>(address);
    return true;
}

void unmap_memory(Allocation const& allocation) {
    std::free(allocation.mapping);
}

#else

/// Ends at a page without access, up to the alignment.
bool map_memory(Allocation& allocation) {
    auto const page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    std::size_t const padded = (allocation.bytes + alignment) / alignment * alignment;
    allocation.mapping_bytes = (padded + page - 1) / page * page;
    void* const address = mmap(nullptr, allocation.mapping_bytes + page, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED)
        return false;
    allocation.mapping = static_cast<std::byte*>(address);
    mprotect(allocation.mapping + allocation.mapping_bytes, page, PROT_NONE);
    allocation.begin = allocation.mapping + allocation.mapping_bytes - padded;
    return true;
}

void unmap_memory(Allocation const& allocation) {
    munmap(allocation.mapping,
           allocation.mapping_bytes + static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
}

#endif

} // namespace

std::size_t used_bytes(int device) {
    auto const [entry, fresh] = memory().used.try_emplace(device, context_bytes);
    return entry->second;
}

namespace {

/// What the program has of a device. A new peak is written down where a test asks for it; it starts
/// anew when the program had nothing.
void count_used(int device, std::size_t bytes) {
    std::size_t& used = memory().used[device];
    std::size_t& peak = memory().peak[device];
    if (used == context_bytes)
        peak = 0;
    used += bytes;
    char const* const folder = std::getenv("EVENER_HOSTCUDA_PEAKS");
    if (used - context_bytes <= peak || !folder || !*folder)
        return;
    peak = used - context_bytes;
    std::ofstream{std::string{folder} + "/device-" + std::to_string(device)} << peak << '\n';
}

void* allocate(std::size_t bytes, bool host) {
    int const device = current_device();
    if (host && bytes > pinned_limit() - memory().pinned)
        refuse_call(cudaErrorMemoryAllocation,
                    std::to_string(bytes) + " pinned bytes are asked for, " +
                        std::to_string(pinned_limit() - memory().pinned) + " can be locked");
    if (!host && bytes > memory_bytes() - used_bytes(device))
        refuse_call(cudaErrorMemoryAllocation,
                    std::to_string(bytes) + " bytes are asked for, " +
                        std::to_string(memory_bytes() - used_bytes(device)) + " are free");
    Allocation allocation{.bytes = bytes, .host = host, .device = device};
    if (!map_memory(allocation))
        refuse_call(cudaErrorMemoryAllocation, "the host has no memory left");
    std::memset(allocation.begin, poison, bytes);
    if (host)
        memory().pinned += bytes;
    else
        count_used(device, bytes);
    memory().allocations[allocation.begin] = allocation;
    if (memory().accesses[device] == 0)
        allow(allocation, false);
    return allocation.begin;
}

/// Waits for all that the device does, as the real runtime does.
void release_memory(void* address, bool host) {
    auto& allocations = memory().allocations;
    auto found = allocations.find(static_cast<std::byte*>(address));
    if (found == allocations.end() || found->second.host != host || found->second.registered)
        refuse_call(cudaErrorInvalidValue, "freeing what was not allocated so");
    Allocation const allocation = found->second;
    finish_device(allocation.device);
    allow(allocation, true);
    allocations.erase(allocation.begin);
    (host ? memory().pinned : memory().used[allocation.device]) -= allocation.bytes;
    unmap_memory(allocation);
}

} // namespace

Allocation const* find_allocation(void const* address) {
    auto const* const wanted = static_cast<std::byte const*>(address);
    auto const& allocations = memory().allocations;
    auto const after = allocations.upper_bound(wanted);
    if (after == allocations.begin())
        return nullptr;
    Allocation const& found = std::prev(after)->second;
    return wanted < found.begin + std::max<std::size_t>(found.bytes, 1) ? &found : nullptr;
}

void expect_within(void const* address, std::size_t bytes, char const* what) {
    Allocation const* const found = find_allocation(address);
    if (found && static_cast<std::byte const*>(address) + bytes > found->begin + found->bytes)
        refuse_call(cudaErrorInvalidValue,
                    std::string{what} + ": the range runs past the end of its allocation");
}

DeviceMemoryAccess::DeviceMemoryAccess(int device) : device_{device} {
    if (memory().accesses[device_]++ == 0)
        allow_device(device_, true);
}

DeviceMemoryAccess::~DeviceMemoryAccess() {
    if (--memory().accesses[device_] == 0)
        allow_device(device_, false);
}

} // namespace evener::hostcuda

using namespace evener::hostcuda;

extern "C" {

cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
    return guarded([=] {
        *memory = nullptr;
        if (bytes > 0)
            *memory = allocate(bytes, false);
    });
}

cudaError_t cudaFree(void* memory) {
    return guarded([=] {
        if (memory)
            release_memory(memory, false);
    });
}

cudaError_t cudaHostAlloc(void** memory, std::size_t bytes, unsigned) {
    return guarded([=] {
        *memory = nullptr;
        if (bytes > 0)
            *memory = allocate(bytes, true);
    });
}

cudaError_t cudaMallocHost(void** memory, std::size_t bytes) {
    return cudaHostAlloc(memory, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* memory) {
    return guarded([=] {
        if (memory)
            release_memory(memory, true);
    });
}

cudaError_t cudaHostRegister(void* address, std::size_t bytes, unsigned) {
    return guarded([=] {
        if (find_allocation(address))
            refuse_call(cudaErrorHostMemoryAlreadyRegistered, "registering memory twice");
        memory().allocations[static_cast<std::byte*>(address)] = {
            .begin = static_cast<std::byte*>(address),
            .bytes = bytes,
            .host = true,
            .registered = true,
            .device = current_device()};
    });
}

cudaError_t cudaHostUnregister(void* address) {
    return guarded([=] {
        Allocation const* const found = find_allocation(address);
        if (!found || !found->registered || found->begin != address)
            refuse_call(cudaErrorHostMemoryNotRegistered, "memory that is not registered");
        finish_device(found->device);
        memory().allocations.erase(static_cast<std::byte*>(address));
    });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
    return guarded([=] {
        *total = memory_bytes();
        // The context takes some of it, whatever the size is.
        *free = memory_bytes() - std::min(memory_bytes(), used_bytes(current_device()));
    });
}

} // extern "C"
