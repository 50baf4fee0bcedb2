// SPDX-License-Identifier: Apache-2.0
#pragma once

// Who writes whose slices into a checkpoint. A pure function of what every rank knows, so that all
// ranks come to the same answer without a message.

#include <cstdint>
#include <vector>

namespace evener::runtime {

/// A rank that writes one data file.
struct Writer {
    int rank = 0;             ///< world rank
    std::vector<int> sources; ///< world ranks whose slices it writes, ascending
    std::int64_t bytes = 0;   ///< of all their slices: what its node's snapshot takes
};

/// What is known of each rank, by world rank.
struct Savers {
    std::vector<int> node;           ///< lowest rank of its node
    std::vector<std::int64_t> bytes; ///< of its slices
    std::vector<bool> may_write;     ///< sees the run folder; empty: all do
};

/// The writers, ascending: the lowest rank that may write of each node that has one. It writes the
/// slices of all ranks of its node. Nodes without one go whole, from the largest, to the writer with
/// the fewest bytes so far. At least one rank may write.
///
/// Ranks 0, 1 | 2, 3 | 4 on three nodes, with 8 bytes each and rank 2 the only one that may not:
/// writers 0, 3 and 4 with sources {0, 1}, {2, 3} and {4}. If no rank of the second node may, the
/// writers are 0 with {0, 1} and 4 with {2, 3, 4}.
std::vector<Writer> assign_writers(Savers const& savers);

/// Place in `writers` of the one that writes the slices of `rank`.
std::size_t writer_of(std::vector<Writer> const& writers, int rank);

/// By world rank, the part of a node's snapshot that stands in its memory row: the rank's own slices
/// where its node writes them, and in a writer's row those of other nodes.
std::vector<std::int64_t> snapshot_bytes(Savers const& savers);

} // namespace evener::runtime
