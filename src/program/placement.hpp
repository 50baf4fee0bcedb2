// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which groups the chunks of a plan stand on, and which layers they hold.
//
// Example: 14 layers on two groups that hold 8 and 6, two chunks each. In turns the groups are 0 1
// 0 1 with 4 3 4 3 layers; in a V they are 0 1 1 0 with 4 3 3 4.

#include "program/plan.hpp"

namespace evener::program {

enum class Placement : std::uint8_t {
    round_robin, ///< all groups in order, then again from the first
    v,           ///< all groups in order, back from the last, and so on
};

/// Group of each chunk, in model order.
std::vector<core::GroupId> placed_groups(Placement placement, std::int64_t groups,
                                         std::int64_t chunks_per_group);

/// Chunks with these groups and numbers of layers, one after the other from layer 0.
std::vector<Chunk> make_chunks(std::vector<core::GroupId> const& groups,
                               std::vector<std::int64_t> const& layers);

/// Cuts the layers of each group evenly over its chunks; earlier chunks take the rest. Every group
/// needs at least as many layers as it has chunks.
std::vector<Chunk> place(Placement placement, std::vector<std::int64_t> const& group_layers,
                         std::int64_t chunks_per_group);

/// Whether the plan's chunks are what place() makes of the layers that its groups hold, recomputed or
/// not.
bool is_placed(Plan const& plan, Placement placement, std::int64_t chunks_per_group);

} // namespace evener::program
