// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ranks of one node share its memory and caches: what one computes takes longer while others compute,
// too. By how much is a rank's `contention` in program::Costs; whether they do depends on the
// timeline, which depends on how long everything takes.

#include "schedule/simulator.hpp"

namespace evener::schedule {

/// [rank][instruction]: how many other ranks of the rank's node compute during the instruction, on
/// average over its span; 0 for what is no computation. `nodes` names each rank's node.
std::vector<std::vector<double>> busy_neighbours(program::ProgramSet const& set,
                                                 program::Timeline const& timeline,
                                                 std::vector<int> const& nodes);

/// The pass in which every computation takes as long as the neighbours that it meets make it:
/// simulated first with all of them busy all the while, then again with those of the simulation
/// before, until the length of the pass changes by less than a thousandth, ten times at most.
Simulation simulate_contended(program::ProgramSet const& set, program::Costs const& costs);

} // namespace evener::schedule
