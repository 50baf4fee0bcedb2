// SPDX-License-Identifier: Apache-2.0
#pragma once

// A communicator and what the main thread does with it outside a step: small collectives that all
// its ranks call together. Each throws core::CommError. Inside a step only the transport thread
// calls MPI.

#include "comm/mpi_check.hpp"
#include "core/handle.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace evener::comm {

struct CommunicatorTraits {
    using Handle = MPI_Comm;
    static Handle null() noexcept { return MPI_COMM_NULL; }
    static void close(Handle handle) noexcept; ///< nothing once MPI has ended
};

class Communicator {
  public:
    Communicator() = default;
    /// A duplicate: messages of different communicators never meet.
    static Communicator duplicate(MPI_Comm comm);
    /// The ranks of `comm` that share memory with this one.
    static Communicator of_node(MPI_Comm comm);
    /// The ranks of `comm` that give the same `color` >= 0, in the same order.
    static Communicator split(MPI_Comm comm, int color);

    MPI_Comm get() const noexcept { return handle_.get(); }
    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }

    void barrier() const;
    /// `text` of rank `root` to all.
    std::string broadcast(std::string_view text, int root = 0) const;
    std::vector<std::byte> broadcast(std::span<std::byte const> bytes, int root = 0) const;
    /// Texts of all ranks by rank, on every rank.
    std::vector<std::string> all_gather(std::string_view text) const;
    /// Same length on all ranks: element i is the sum, largest or smallest of the ranks' i-th.
    std::vector<double> all_sum(std::vector<double> values) const;
    std::vector<double> all_max(std::vector<double> values) const;
    std::vector<double> all_min(std::vector<double> values) const;
    std::vector<std::int64_t> all_sum(std::vector<std::int64_t> values) const;
    std::vector<std::int64_t> all_max(std::vector<std::int64_t> values) const;
    std::vector<std::int64_t> all_min(std::vector<std::int64_t> values) const;
    /// From memory to memory of one other rank, which makes the opposite call for as many bytes; in
    /// blocks, several of which are under way.
    void send(std::span<std::byte const> bytes, int peer) const;
    void receive(std::span<std::byte> bytes, int peer) const;

  private:
    explicit Communicator(MPI_Comm owned);

    core::UniqueHandle<CommunicatorTraits> handle_;
    int rank_ = 0;
    int size_ = 1;
};

/// Vectors of trivially copyable values of all ranks by rank, on every rank.
template <class T>
std::vector<std::vector<T>> all_gather_values(Communicator const& comm, std::span<T const> mine) {
    static_assert(std::is_trivially_copyable_v<T>);
    std::vector<std::vector<T>> all;
    for (std::string const& bytes :
         comm.all_gather({reinterpret_cast<char const*>(mine.data()), mine.size_bytes()})) {
        all.emplace_back(bytes.size() / sizeof(T));
        std::copy_n(bytes.data(), bytes.size(), reinterpret_cast<char*>(all.back().data()));
    }
    return all;
}

/// By rank of `world`, the lowest rank of its node; `node`: the ranks of this one's. Collective.
///
/// Ranks 0, 2 | 1, 3 on two nodes: {0, 1, 0, 1} on every rank.
std::vector<int> lowest_of_nodes(Communicator const& world, Communicator const& node);

/// What all ranks learn when some may have failed.
struct Agreement {
    bool ok = true;
    int rank = -1;       ///< the lowest that failed
    std::string message; ///< its words
};

/// All ranks call it; `message` says why this one failed (`ok` false).
Agreement agree(Communicator const& comm, bool ok, std::string_view message);

/// Memory that all ranks of a node read and write, `bytes` large (the same on all ranks).
class SharedMemory {
  public:
    /// Collective over `node`. Throws core::CommError when the node's shared memory is too small.
    SharedMemory(Communicator const& node, std::int64_t bytes);
    SharedMemory(SharedMemory const&) = delete;
    SharedMemory& operator=(SharedMemory const&) = delete;
    ~SharedMemory();

    std::span<std::byte> bytes() const noexcept { return bytes_; }
    /// Collective: what any rank wrote before is seen by all after.
    void synchronize() const;

  private:
    MPI_Comm comm_ = MPI_COMM_NULL; ///< of the caller, which outlives this
    MPI_Win window_ = MPI_WIN_NULL;
    std::span<std::byte> bytes_;
    int exceptions_ = std::uncaught_exceptions(); ///< unwinding when it was made
};

} // namespace evener::comm
