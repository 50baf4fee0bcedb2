// SPDX-License-Identifier: Apache-2.0
#pragma once

// Faults that a test plants in a program that runs on the fakes: EVENER_HOSTCUDA_FAULT is
// KIND:NUMBER or KIND:NUMBER@RANK, the NUMBER-th (from 1) occasion in the process of that rank.

namespace evener::hostcuda {

enum class FaultKind {
    dropped_wait, ///< a stream does not wait for an event that is not reached, and runs ahead
    early_event,  ///< an event is said to be reached before it is
    swapped_collectives, ///< a group of collective calls is issued behind the next one
    dies,                ///< the process is killed when a group of collective calls starts
    absent               ///< a communicator is made without this member, which does not come
};

/// Whether this is the occasion, which is said on stderr. The runtime's lock is held.
bool fault_now(FaultKind kind);

} // namespace evener::hostcuda
