// SPDX-License-Identifier: Apache-2.0
#pragma once

// Signals that ask a running job for something. A handler only sets a flag; the trainer reads it
// between two steps, and ranks agree on what to do with the step's scalar reduction.

#include <cstdint>

namespace evener::runtime {

/// From now on SIGUSR2 asks for an exchange of the schedule instead of ending the process.
void catch_signals();

/// From now on SIGUSR1, a first SIGTERM and a first SIGINT ask for saving and an early end. A second
/// of the last two ends the process at once, as if none had ever been caught.
void catch_stop_signals();

/// Where the handler of SIGTERM writes "TERM    ", besides; null: nowhere.
void mark_termination_at(std::uint64_t* place);

/// Request bits (runtime/step_state.hpp) of the signals that have come: an exchange since the last
/// call, a stop ever. For an exchange only rank 0's counts: a launcher passes a signal on to all
/// ranks, which get it at different steps.
std::int64_t take_requests(int rank);

} // namespace evener::runtime
