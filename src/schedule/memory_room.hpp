// SPDX-License-Identifier: Apache-2.0
#pragma once

// What each rank keeps while a schedule is made, and what it may still begin without running into
// a state in which no memory is left for what must come first.

#include "schedule/work_graph.hpp"

namespace evener::schedule {

class MemoryRoom {
  public:
    /// Throws core::ConfigError where a rank's limit is below what one microbatch needs.
    explicit MemoryRoom(WorkGraph const& graph);

    /// Whether the forward fits now, leaves room for the rest of up to `reserved` older
    /// microbatches, and cannot block what is older.
    bool fits_forward(std::int32_t cell, std::int64_t reserved) const;
    /// Whether the backward may be split now.
    bool fits_input_half(std::int32_t cell) const;
    /// Whether no older microbatch has forwards left on the cell's rank.
    bool is_oldest(std::int32_t cell) const;

    void start(std::int32_t cell, program::WorkKind kind);
    void end(std::int32_t cell, program::WorkKind kind);

    /// The limit with a margin for the rounding of sums of bytes.
    static double with_margin(double limit);

  private:
    struct Microbatch {
        double held = 0;        ///< bytes of its cells that have begun
        double remaining = 0;   ///< bytes of its cells that have not
        std::int64_t cells = 0; ///< that have not begun
    };
    struct Rank {
        std::vector<Microbatch> microbatches;
        std::int64_t oldest = 0;  ///< lowest with cells that have not begun
        std::int64_t newest = -1; ///< highest with cells that have
        double held = 0;
        double limit = 0; ///< with margin
    };

    Cell const& cell(std::int32_t index) const {
        return graph_->cells[static_cast<std::size_t>(index)];
    }

    WorkGraph const* graph_;
    std::vector<Rank> ranks_;
};

/// Whether no rank ever keeps more than its limit.
bool fits_memory(WorkGraph const& graph, Evaluation const& run);

} // namespace evener::schedule
