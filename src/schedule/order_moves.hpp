// SPDX-License-Identifier: Apache-2.0
#pragma once

// Changes of one rank's order of work that keep it possible for the rank alone: a forward before
// its backward, an input half before its weight half, memory within the limit.

#include "schedule/work_graph.hpp"

namespace evener::schedule {

class OrderMoves {
  public:
    /// The graph must outlive the moves.
    explicit OrderMoves(WorkGraph const& graph) : graph_{graph} {}

    /// Moves work `from` towards `to` as far as its cell's other work allows; false = nowhere.
    static bool move(std::vector<program::Work>& order, std::size_t from, std::size_t to);

    /// Fuses the input half at `index` with its weight half, wherever that is.
    static bool fuse(std::vector<program::Work>& order, std::size_t index);

    /// Splits the backward at `index`; its weight half comes to `to` or, if that is not after it,
    /// next.
    static bool split(std::vector<program::Work>& order, std::size_t index, std::size_t to);

    /// Brings weight halves forward until the memory limit is kept; false = not possible.
    bool fit_memory(core::RankId rank, std::vector<program::Work>& order) const;

  private:
    Cell const& cell(core::RankId rank, program::Work const& work) const;
    /// First index at which too much is kept, or the order's size.
    std::size_t first_excess(core::RankId rank, std::vector<program::Work> const& order) const;

    WorkGraph const& graph_;
};

} // namespace evener::schedule
