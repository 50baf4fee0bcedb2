// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a device has a memory of its own, messages and exchanges work in pinned memory: for every
// part of the arena that the transport touches there is a place in the staging. Two uses of one
// place are ordered as the program orders those of the arena.

#include "comm/tasks.hpp"
#include "device/memory.hpp"

#include <span>
#include <vector>

namespace evener::runtime {

class DeviceStaging {
  public:
    DeviceStaging() = default;
    /// Rewrites the tasks of `rank` that were made with addresses of the arena: they work in the
    /// staging and list the copies to and from the arena. The queues of one list never run beside
    /// those of another. Throws core::DeviceError.
    DeviceStaging(device::Device const& device, core::RankId rank,
                  std::span<std::vector<comm::TransportQueue>* const> lists);

    std::int64_t bytes() const { return memory_.size(); }

  private:
    /// A connected part of the arena and where it lies in the staging.
    struct Piece {
        std::byte const* begin = nullptr;
        std::byte const* end = nullptr;
        std::int64_t offset = 0;
    };

    /// The staging's address for one of the arena.
    std::byte* of(void const* address) const;
    void rewrite(comm::Task& task, core::RankId rank) const;

    std::vector<Piece> pieces_; ///< ascending, apart from each other
    device::Allocation memory_;
};

} // namespace evener::runtime
