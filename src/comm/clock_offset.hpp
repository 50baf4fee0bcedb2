// SPDX-License-Identifier: Apache-2.0
#pragma once

// How far the steady clocks of nodes are apart, so that times measured by different ranks can stand
// on one axis. The ranks of a node read the same clock. The first rank of every other node asks rank
// 0 for its time and halves the round trip (Cristian 1989): whatever the way there and back took,
// the answer is wrong by no more than half of the shortest round trip.

#include "comm/communicator.hpp"

#include <functional>

namespace evener::comm {

struct ClockOffset {
    double seconds = 0;       ///< added to a time of this rank gives rank 0's
    double error_seconds = 0; ///< bound of what `seconds` is wrong by; 0 on rank 0's node
};

/// This node's steady clock.
double steady_seconds();

/// Collective over `world`; `node` holds the ranks of `world` that read this rank's clock. Clocks
/// drift, so measure close to what is to be compared.
ClockOffset measure_clock_offset(Communicator const& world, Communicator const& node,
                                 std::function<double()> const& now = steady_seconds);

} // namespace evener::comm
