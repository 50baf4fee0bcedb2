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

/// When the gradients of a bucket are reduced, measured and leave.
enum class GradientEnd : std::uint8_t {
    early, ///< soon after their last computation; later buckets take their memory
    late,  ///< after all computations, each in memory of its own: waits for nobody in between
};

struct LoweringInput {
    program::Plan const& plan;
    model::Model const& model;
    program::Schedule const& schedule;
    LoweringOptions const& options;
    std::vector<program::Bucket> const& buckets;
    /// All buckets in the order in which every member reduces them.
    std::vector<core::BucketId> const& reduction_order;
    LinkBuffers const& receive_buffers;
    LinkBuffers const& send_buffers;
    GradientEnd gradient_end = GradientEnd::early;
};

program::Program lower_rank(LoweringInput const& input, core::RankId rank);

/// Gives every buffer its offset: each kind in a region of its own; what does not persist in slots
/// or by best fit over lifetimes, apart from buffers of links. Where a buffer takes memory
/// that another queue used, its first instruction is made to wait for the end of that use.
void assign_offsets(program::Program& program);

} // namespace evener::schedule
