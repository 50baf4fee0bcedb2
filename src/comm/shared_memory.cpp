// SPDX-License-Identifier: Apache-2.0
#include "comm/communicator.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cstdint>

namespace evener::comm {

namespace {

/// A copy of much memory waits for the tables of small pages more than for the memory. Advice: where it
/// cannot be taken, pages stay small.
void advise_huge_pages(std::span<std::byte> bytes) {
    constexpr std::uintptr_t page = std::uintptr_t{2} << 20;
    auto const begin = reinterpret_cast<std::uintptr_t>(bytes.data());
    std::uintptr_t const first = (begin + page - 1) / page * page;
    std::uintptr_t const last = (begin + bytes.size()) / page * page;
    if (first < last)
        static_cast<void>(madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE));
}

} // namespace

SharedMemory::SharedMemory(Communicator const& node, std::int64_t bytes) : comm_{node.get()} {
    EVENER_EXPECT(bytes >= 0);
    // The first rank holds all of it; the others look into its part.
    MPI_Aint const mine = node.rank() == 0 ? bytes : 0;
    void* base = nullptr;
    int const code = MPI_Win_allocate_shared(mine, 1, MPI_INFO_NULL, comm_, &base, &window_);
    if (code != MPI_SUCCESS)
        throw core::CommError{
            MPI_ERR_NO_MEM, -1,
            fmt::format("{} bytes of memory that the node's ranks share cannot be allocated ({}) "
                        "make the node's temporary folder for shared memory larger (/dev/shm, or "
                        "what TMPDIR names)",
                        bytes, error_string(code))};
    MPI_Aint size = 0;
    int unit = 0;
    EVENER_MPI(MPI_Win_shared_query(window_, 0, &size, &unit, &base));
    EVENER_MPI(MPI_Win_lock_all(MPI_MODE_NOCHECK, window_));
    bytes_ = {static_cast<std::byte*>(base), static_cast<std::size_t>(bytes)};
    advise_huge_pages(bytes_);
}

SharedMemory::~SharedMemory() {
    int ended = 0;
    MPI_Finalized(&ended);
    if (ended != 0 || window_ == MPI_WIN_NULL)
        return;
    // Freeing is collective: while an exception unwinds the other ranks may not come.
    if (std::uncaught_exceptions() > exceptions_)
        return;
    MPI_Win_unlock_all(window_);
    MPI_Win_free(&window_);
}

void SharedMemory::synchronize() const {
    EVENER_MPI(MPI_Win_sync(window_));
    EVENER_MPI(MPI_Barrier(comm_));
    EVENER_MPI(MPI_Win_sync(window_));
}

} // namespace evener::comm
