// SPDX-License-Identifier: Apache-2.0
#pragma once

// What all ranks measured of the training step that just ended, brought together.

#include "comm/communicator.hpp"
#include "runtime/session.hpp"

namespace evener::runtime {

/// Collective, outside a pass; the same on every rank. Time zero is the earliest start of the pass
/// on any rank. `clock_offset_seconds` is what to add to this rank's steady clock to get rank 0's
/// (0 for ranks of one node, which share it).
program::Measurement gather_measurement(comm::Communicator const& world, Session const& session,
                                        double clock_offset_seconds = 0);

} // namespace evener::runtime
