// SPDX-License-Identifier: Apache-2.0
#pragma once

// Exact search for small graphs: branch and bound over the orders of work, breadth first by pieces
// of work decided.
//
// Branching: of all work that could come next on its rank, the one that can end first names a rank
// and a moment; one branch for each piece of work that can start on that rank before that moment
// (Giffler and Thompson). Where inserting the first-ending work could delay a message or take
// memory, one more branch leaves the rank idle until then.
//
// States with the same work decided are compared: one whose rank, port and arrival times are all no
// later makes the other needless. A weight half is not put before other work that could have
// started in its place. What WorkBounds says cannot beat the best schedule known is dropped.
//
// Passes keep more and more states per layer; the last keeps all that are not dropped by bound. The
// messages of different ranks over one wire do not queue in the search but do in evaluate(), so
// with shared wires the result may stay open.

#include "schedule/work_graph.hpp"

#include <cstdint>

namespace evener::schedule {

struct ExactOptions {
    double seconds = 20;           ///< for all passes together
    std::int64_t states = 600'000; ///< per layer, a few hundred bytes each
    std::int64_t work_budget =
        2'000'000; ///< of the greedy search and the improvement it starts from
};

struct Exact {
    program::Schedule schedule; ///< the best found
    double seconds = 0;         ///< by evaluate()
    /// No schedule in which microbatches keep their order within each kind of work (forwards, input
    /// halves, weight halves) of a rank and chunk is faster. A fused backward is an input half, and
    /// where the cells of a rank and chunk differ a weight half too.
    double lower_bound = 0;
    bool closed = false; ///< both are the same but for rounding
};

/// Throws core::ConfigError where a rank cannot hold one microbatch, or for more than 16 pairs of
/// rank and chunk.
Exact exact(WorkGraph const& graph, ExactOptions const& options = {});

/// One pass of the same search that keeps only the states with the least bounds: a schedule no
/// slower than `schedule`, which must keep the memory limits. Deterministic; about `work_budget`
/// pieces of work are looked at. Returns `schedule` where that is too little for the graph, or the
/// graph has more than 16 pairs of rank and chunk.
program::Schedule beam_search(WorkGraph const& graph, program::Schedule schedule,
                              std::int64_t work_budget = 50'000'000);

} // namespace evener::schedule
