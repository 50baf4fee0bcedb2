// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a device has a memory of its own, messages and exchanges work in pinned memory: for every
// part of the arena that the transport touches there is a place in the staging. Two uses of one
// place are ordered as the program orders those of the arena. What lies in pinned memory anyway, the
// homes, needs no place.

#include "comm/tasks.hpp"
#include "program/program.hpp"
#include "runtime/device_exchange.hpp"

#include <span>
#include <vector>

namespace evener::runtime {

/// Which parts of the arena the transport touches in the programs of a rank, and their places. What
/// goes directly between devices or to MPI needs none.
class StagingLayout {
  public:
    StagingLayout() = default;
    StagingLayout(std::span<program::ProgramSet const* const> sets, core::RankId rank,
                  DeviceExchange const& exchange);

    std::int64_t bytes() const { return bytes_; }
    /// The place for an offset in the arena, which the programs must touch.
    std::int64_t place_of(std::int64_t offset) const;
    /// Whether the task works in the staging.
    bool holds(comm::Task const& task) const;

  private:
    /// A connected part of the arena and where it lies in the staging.
    struct Piece {
        std::int64_t begin = 0;
        std::int64_t end = 0;
        std::int64_t place = 0;
    };

    void add(program::ProgramSet const& set, core::RankId rank, DeviceExchange const& exchange);
    void merge();

    std::vector<Piece> pieces_; ///< ascending, apart from each other
    std::int64_t bytes_ = 0;
    bool direct_messages_ = false;
};

/// Rewrites tasks that were made with addresses of the arena: they work in the staging and list the
/// copies to and from the arena. The queues of programs with one layout never run beside each other.
class DeviceStaging {
  public:
    /// `staging`: layout.bytes() of pinned memory.
    DeviceStaging(StagingLayout const& layout, core::RankId rank, std::span<std::byte> arena,
                  std::byte* staging);

    void rewrite(std::vector<comm::TransportQueue>& queues) const;

  private:
    bool in_arena(void const* address) const;
    /// The staging's address for one of the arena, any other one as it is.
    std::byte* of(void const* address) const;
    void rewrite(comm::Task& task) const;

    StagingLayout const& layout_;
    core::RankId rank_;
    std::span<std::byte> arena_;
    std::byte* staging_;
};

} // namespace evener::runtime
