// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the generators share: how wide a group is, which microbatches each rank has a part in, and
// one generator per family of schedules. Internal to this folder; generators.hpp says what they do.
//
// Stage and width. Chunks that stand in turn on p groups make p stages; "in front" and "behind" are
// along the model. A group whose ranks share each microbatch is one stage wide. A group that deals
// whole microbatches to d ranks is d wide: a microbatch stays d times as long in it as in a group
// of the same speed that shares, as if d stages followed each other. All formulas that count stages
// therefore add up widths, and with widths of 1 they are the textbook's.

#include "program/plan.hpp"
#include "program/schedule.hpp"

#include <string_view>
#include <vector>

namespace evener::schedule {

/// A group with the microbatches of its members, each ascending.
struct Stage {
    program::Group const* group = nullptr;
    std::int64_t width = 1;
    std::int64_t in_front = 0;                                 ///< sum of the widths before it
    std::vector<std::vector<core::MicrobatchId>> microbatches; ///< by member
};

/// The stages of a plan whose first groups.size() chunks stand on different groups, in the order of
/// these chunks.
std::vector<Stage> stages_of(program::Plan const& plan);

/// Sum of the widths of all stages.
std::int64_t total_width(std::vector<Stage> const& stages);

/// Microbatches in which each member of the group has sequences.
std::vector<std::vector<core::MicrobatchId>> microbatches_of(program::Plan const& plan,
                                                             program::Group const& group);

/// Fused, or the two halves one after the other, as the plan says.
void add_backward(std::vector<program::Work>& order, program::Plan const& plan, core::ChunkId chunk,
                  core::MicrobatchId microbatch);

/// Orders of all ranks; the plan must suit the schedule (generator_problem).
using Orders = std::vector<std::vector<program::Work>>;

/// All forwards chunk by chunk, then all backwards chunk by chunk from the last.
Orders forward_then_backward(program::Plan const& plan, bool backward_reversed);

/// Forwards only.
Orders forward_only(program::Plan const& plan);

/// 1F1B and ZB-H1, ZB-H2: see windowed.cpp. `extra[g]` more microbatches in flight in group g.
enum class Windowed { one_f_one_b, zb_h1, zb_h2 };
Orders windowed(program::Plan const& plan, Windowed kind, std::vector<std::int64_t> const& extra);

Orders interleaved(program::Plan const& plan);

Orders zb_v(program::Plan const& plan);

} // namespace evener::schedule
