// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs the programs without time, by the rules of program.hpp, as far as they go. Since every rule
// only says what must be over before something may start or end, the outcome does not depend on the
// order in which the queues are looked at. Internal to this folder; the proof is verify's.

#include "schedule/rank_lowering.hpp"

namespace evener::schedule {

/// Whether all programs run to their end.
bool runs_to_end(program::ProgramSet const& set);

/// Empty when all programs run to their end. Otherwise the links with a message on its way whose
/// Receive cannot start for want of a free slot: those where one more buffer helps. Throws
/// core::ConfigError when the programs block for any other reason.
std::vector<Link> links_short_of_buffers(program::ProgramSet const& set);

} // namespace evener::schedule
