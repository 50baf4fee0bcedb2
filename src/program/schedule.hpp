// SPDX-License-Identifier: Apache-2.0
#pragma once

// A schedule: for each rank the order of its work. Data only; a generator, a search or a file makes
// it.

#include "core/ids.hpp"

#include <string>
#include <vector>

namespace evener::program {

enum class WorkKind : std::uint8_t { forward, backward, backward_input, backward_weight };

struct Work {
    WorkKind kind = WorkKind::forward;
    core::ChunkId chunk;
    core::MicrobatchId microbatch;

    friend bool operator==(Work const&, Work const&) = default;
};

struct Schedule {
    std::string name;
    std::vector<std::vector<Work>> ranks; ///< indexed by rank

    friend bool operator==(Schedule const&, Schedule const&) = default;
};

/// `F0.3`: chunk 0, microbatch 3; the letters are F, BW (fused), B and W.
std::string to_string(Work const& work);

} // namespace evener::program
