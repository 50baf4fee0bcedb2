// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which cores this rank may run on, and how many of them it should use.

#include "comm/communicator.hpp"

#include <cstdint>

namespace evener::cluster {

struct Processors {
    int cores = 1;         ///< in this process's cpuset, hardware threads of a core counted once
    int sharing_ranks = 1; ///< ranks of this node with the same cpuset, this one included
    int threads() const { return cores / sharing_ranks > 1 ? cores / sharing_ranks : 1; }
};

/// Of this process alone.
Processors own_processors();

/// With the ranks of the node that share the cpuset. Collective over `node`.
Processors processors(comm::Communicator const& node);

/// Resident memory of this process in bytes; 0 where the system does not say.
std::int64_t resident_bytes();

} // namespace evener::cluster
