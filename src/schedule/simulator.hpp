// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs programs in simulated time, by the rules of program/program.hpp:
//
// - A message can leave when its Send and its Receive have both started; it takes its wire in the
//   order in which messages get ready, and occupies it for bytes x seconds_per_byte. The Send ends
//   when the message has left, or, where it had to wait for its Receive, latency later; the Receive
//   when the message has arrived, latency after it has left.
// - A collective on parameters is a direct exchange: each contributor's part for each owner (or
//   each owner's part for each holder) is a message that can leave when both have started. A
//   participant ends when all of its own have left and arrived and every participant has started.
//   ReduceScalars goes through rank 0 with messages of no bytes. Additions take no time.
// - Everything else takes the seconds it is given.
//
// Events are handled in the order of time (ties: lower rank, lower instruction), so a run is a
// function of its input.

#include "program/costs.hpp"
#include "program/timeline.hpp"
#include "schedule/happens_before.hpp"

#include <vector>

namespace evener::schedule {

/// Why an instruction did not end earlier, besides the time it takes itself.
enum class Cause : std::uint8_t {
    nothing, ///< the start of the pass
    order,   ///< the instruction before it in its queue
    wait,    ///< an instruction in its `after`
    partner, ///< a Receive: its Send; a collective: what its last participant waited for
    buffer,  ///< a Send: what the receive buffer waited for
    wire,    ///< a Send: the message in front of it on the wire
};

/// A link of the chain that the length of the pass depends on.
struct CriticalStep {
    Place place;
    program::Span span;           ///< of the instruction
    Cause cause = Cause::nothing; ///< why it waited for the step before
};

struct Simulation {
    program::Timeline timeline;
    double seconds = 0; ///< of the pass
    /// From the first instruction to the one that ends last; each waits for the one before.
    /// Ends ascend, except behind Cause::wire.
    std::vector<CriticalStep> critical_path;
    std::vector<double> wire_busy_seconds; ///< by wire
};

/// The programs must run to their end (verify, or lowering's choice of buffers, says so); throws
/// core::ContractViolation that names the first instruction that cannot end.
Simulation simulate(program::ProgramSet const& set, program::InstructionSeconds const& seconds,
                    program::Network const& network);

} // namespace evener::schedule
