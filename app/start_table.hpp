// SPDX-License-Identifier: Apache-2.0
#pragma once

// The tables at the start of a job, as text: what runs where, the plan, memory by rank and use.

#include "app/engine.hpp"

#include <string>

namespace evener::app {

/// Versions, hosts, cores, threads, kinds of devices and measured matrix rates.
std::string machine_table(comm::MpiSession const& mpi, Engine const& engine);

/// Groups with their ranks and kinds of devices, layers, shares, compute type, and what saves memory.
std::string plan_table(program::Plan const& plan, model::Model const& model);

/// What a rank holds beside its arena, in bytes.
struct OtherMemory {
    std::int64_t snapshot = 0; ///< its part of the node's snapshot for checkpoints
    std::int64_t staging = 0;  ///< pinned, but for what is offloaded: messages, tokens, numbers
    std::int64_t outside =
        0; ///< libraries and MPI, measured before the arena was made; 0 = unknown
};

/// Bytes of each rank's arena by use (the columns of a rank add up to its arena), and beside it; and
/// of its pinned memory, where some rank offloads. `other`: by rank, or empty.
std::string memory_table(program::ProgramSet const& set, std::vector<OtherMemory> const& other);

} // namespace evener::app
