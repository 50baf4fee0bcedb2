// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a pass made of each rank's time and memory, from a timeline: the same figures for a
// predicted and for a measured one.

#include "program/timeline.hpp"
#include "schedule/happens_before.hpp"

#include <string>
#include <vector>

namespace evener::schedule {

/// Of one rank. A message is under way from the moment when both its Send and its Receive have
/// started, a collective from the start of its last participant, each to the end of the rank's own
/// instruction: before that a rank waits for another rank, not for the network.
struct RankUsage {
    double busy_seconds = 0;   ///< something runs on the compute queue
    double bubble_seconds = 0; ///< nothing does, from the start to the end of the pass
    /// Part of the bubble in which a message, collective or copy is under way that the next
    /// computation waits for, directly or by way of others.
    double exposed_seconds = 0;
    std::vector<program::Span> exposed; ///< the same, ascending, without overlaps
    double communication_seconds = 0;   ///< some message or collective of the rank is under way
    double overlapped_seconds = 0;      ///< of these, the ones in which it computes
    double fetch_seconds = 0;           ///< something is copied from pinned memory to the device
    double hidden_fetch_seconds = 0;    ///< of these, the ones in which it computes
    double evict_seconds = 0;           ///< something is copied back
    double hidden_evict_seconds = 0;
    double first_start = 0;             ///< of a computation
    double last_end = 0;                ///< likewise
    std::int64_t peak_bytes = 0;        ///< of program::memory_over_time, on the device
    std::int64_t peak_pinned_bytes = 0; ///< likewise in pinned memory

    /// Idle seconds between the first and the last computation.
    double inner_bubble_seconds() const { return last_end - first_start - busy_seconds; }
};

struct Usage {
    double seconds = 0; ///< of the pass
    std::vector<RankUsage> ranks;
};

/// The timeline has a span for every instruction of the set. `meetings` are those of the set.
Usage usage_of(program::ProgramSet const& set, program::Timeline const& timeline,
               Meetings const& meetings);
Usage usage_of(program::ProgramSet const& set, program::Timeline const& timeline);

/// Means over the ranks and the highest peak, in a line for people.
std::string to_string(Usage const& usage);

/// When each message and collective of each rank is under way, [rank][instruction]; for
/// computations the span itself. Never before the start or after the end of the instruction.
std::vector<std::vector<program::Span>> under_way(program::ProgramSet const& set,
                                                  program::Timeline const& timeline,
                                                  Meetings const& meetings);

} // namespace evener::schedule
