// SPDX-License-Identifier: Apache-2.0
#pragma once

// What of this rank's traffic does not go through pinned host memory.

#include "device/group.hpp"
#include "program/program.hpp"

#include <vector>

namespace evener::runtime {

struct DeviceExchange {
    device::Group* group = nullptr;  ///< this rank's; outlives the session; null: none
    std::vector<core::RankId> ranks; ///< of the group, ascending: the places of its members
    bool messages = false;           ///< MPI takes addresses of this device's memory

    /// Whether the devices run a reduction or gather themselves: all members of the bucket are
    /// theirs and compute with it, nobody else does, and the weights are not in pinned memory.
    bool runs(program::ProgramSet const& set, program::Program const& program,
              program::Instruction const& instruction) const;
};

} // namespace evener::runtime
