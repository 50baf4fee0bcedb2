// SPDX-License-Identifier: Apache-2.0
#pragma once

// Lowering of one rank's program. Internal to this folder.

#include "schedule/lowering.hpp"

#include <map>

namespace evener::schedule {

/// One direction between two ranks.
struct Link {
    core::RankId sender;
    core::RankId receiver;
    program::Direction direction = program::Direction::forward;

    friend auto operator<=>(Link const&, Link const&) = default;
};

/// Buffers per link at one of its ends.
using LinkCounts = std::map<Link, std::int64_t>;

/// Where a link is not listed it has `otherwise` buffers.
struct LinkBuffers {
    std::int64_t otherwise = 1;
    LinkCounts counts;

    std::int64_t of(Link const& link) const {
        auto const found = counts.find(link);
        return found == counts.end() ? otherwise : found->second;
    }
};

struct LoweringInput {
    program::Plan const& plan;
    model::Model const& model;
    program::Schedule const& schedule;
    LoweringOptions const& options;
    std::vector<program::Bucket> const& buckets;
    LinkBuffers const& receive_buffers;
    LinkBuffers const& send_buffers;
};

program::Program lower_rank(LoweringInput const& input, core::RankId rank);

/// Gives every buffer its offset: each kind in a region of its own; within the regions of kept,
/// kept_for_weights and handover best fit over the lifetimes on the compute queue.
void assign_offsets(program::Program& program);

} // namespace evener::schedule
