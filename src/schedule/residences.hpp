// SPDX-License-Identifier: Apache-2.0
#pragma once

// When the weights of chunks are on the device, where they are offloaded. Internal to this folder.
//
// A rank's work is cut into runs of one chunk. When a run starts, the weights of the next run's chunk
// are fetched, so two chunks are there at a time. A chunk that comes back in the next run but one is
// there still: its residence goes on.
//
// Example: F0 F1 F2 B2 B1 B0. Chunk 0 resides in item 0, chunk 1 (fetched in front of item 0) in
// [1, 4], chunk 2 (in front of item 1) in [2, 3], and chunk 0 again (in front of item 4) in item 5.

#include "core/ids.hpp"

#include <cstddef>
#include <vector>

namespace evener::schedule {

struct Residence {
    core::ChunkId chunk;
    std::size_t fetch_before = 0; ///< item in front of which it is fetched
    std::size_t first = 0;        ///< item that uses it first
    std::size_t last = 0;         ///< ... and last

    friend bool operator==(Residence const&, Residence const&) = default;
};

/// `chunks`: by item, the chunk whose weights it needs; invalid where it needs none. Ascending by
/// first item.
std::vector<Residence> residences_of(std::vector<core::ChunkId> const& chunks);

} // namespace evener::schedule
