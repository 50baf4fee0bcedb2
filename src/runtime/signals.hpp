// SPDX-License-Identifier: Apache-2.0
#pragma once

// Signals that ask a running job for something. A handler only sets a flag; the trainer reads it
// between two steps, and ranks agree on what to do with the step's scalar reduction.

#include <cstdint>

namespace evener::runtime {

/// From now on SIGUSR2 asks for an exchange of the schedule instead of ending the process.
void catch_signals();

/// Request bits (runtime/step_state.hpp) that have come since the last call. Only rank 0's count: a
/// launcher passes a signal on to all ranks, which get it at different steps.
std::int64_t take_requests();

} // namespace evener::runtime
