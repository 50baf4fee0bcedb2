// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory limits of schedules, checked in two ways.

#include "schedule/memory_room.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace evener::schedule {

/// Most bytes that a rank's order keeps at once, counted from the order alone.
inline double peak_of_order(WorkGraph const& graph, core::RankId rank,
                            std::vector<program::Work> const& order) {
    double kept = 0;
    double peak = 0;
    for (program::Work const& work : order) {
        Cell const& cell =
            graph.cells[static_cast<std::size_t>(graph.find(rank, work.chunk, work.microbatch))];
        if (work.kind == program::WorkKind::forward)
            kept += cell.kept_bytes;
        if (work.kind == program::WorkKind::backward_input)
            kept += cell.kept_for_weights_bytes;
        peak = std::max(peak, kept);
        if (work.kind == program::WorkKind::backward)
            kept -= cell.kept_bytes;
        if (work.kind == program::WorkKind::backward_weight)
            kept -= cell.kept_bytes + cell.kept_for_weights_bytes;
    }
    return peak;
}

inline void expect_within_limits(WorkGraph const& graph, program::Schedule const& schedule) {
    EXPECT_TRUE(fits_memory(graph, evaluate(graph, schedule)));
    for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
        EXPECT_LE(
            peak_of_order(graph, core::RankId{static_cast<std::int64_t>(r)}, schedule.ranks[r]),
            graph.memory_limits[r] * (1 + 1e-6));
}

} // namespace evener::schedule
