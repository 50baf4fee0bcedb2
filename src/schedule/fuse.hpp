// SPDX-License-Identifier: Apache-2.0
#pragma once

// Input and weight gradients in one piece of work where keeping them apart gains nothing: one
// instruction is faster than two, and what B keeps for W needs no buffer. But the input gradient
// leaves later, so others may have to wait.

#include "schedule/work_graph.hpp"

namespace evener::schedule {

/// Joins W to the B of the same cell where it follows at once, the graph gives the whole no more
/// time than the halves, and no work of any rank starts later for it. Never slower, and keeps no
/// more than before. Throws as evaluate().
program::Schedule fuse_adjacent(program::Schedule const& schedule, WorkGraph const& graph);

} // namespace evener::schedule
