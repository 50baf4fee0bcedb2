// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which GPU each rank of a node computes on: never two ranks on one, near ones first.

#include "comm/communicator.hpp"
#include "device/plugin.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace evener::cluster {

/// A GPU as one rank sees it.
struct GpuCandidate {
    int ordinal = 0;                      ///< in that rank's process
    std::array<unsigned char, 16> uuid{}; ///< the same GPU in every process
    int distance = 0; ///< 0: at the rank's own cores, 1: in its package, 2: elsewhere on the node
};

/// By rank of the node, the ordinal it takes; none where all that it sees are taken. Ranks choose in
/// order, in rounds of growing distance, so that a rank takes a far GPU only when no rank without
/// one is nearer to it.
std::vector<std::optional<int>>
assign_gpus(std::vector<std::vector<GpuCandidate>> const& candidates);

/// Of this process's GPUs, how near they are to the cores it may run on (hwloc); 0 where the system
/// does not say.
std::vector<GpuCandidate> gpu_candidates(std::vector<device::Gpu> const& gpus);

/// The GPU of this rank. Collective over `node`; a rank that wants none gives no candidates.
std::optional<int> own_gpu(comm::Communicator const& node,
                           std::vector<GpuCandidate> const& candidates);

} // namespace evener::cluster
