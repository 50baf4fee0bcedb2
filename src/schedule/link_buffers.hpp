// SPDX-License-Identifier: Apache-2.0
#pragma once

// How many buffers the two ends of each link need. Internal to this folder.

#include "schedule/rank_lowering.hpp"
#include "schedule/simulator.hpp"

namespace evener::schedule {

/// Counts per link with which no message of this run would have waited for a buffer: where the k-th
/// message of a link was sent (or written), the one that was as many places before it had been used
/// (or had left). `run` must come from programs whose own buffers made nothing wait.
struct BufferCounts {
    LinkCounts receive;
    LinkCounts send;
};
BufferCounts counts_without_stall(program::ProgramSet const& set, Simulation const& run);

} // namespace evener::schedule
