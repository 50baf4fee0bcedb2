// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs a set of programs on symbols instead of tensors, with random delays on every stream: what
// verify proves, this tries out. It shares no code with verify. Queues, waits, synchronous sends
// and collectives follow program/program.hpp; memory is an arena and a pinned region
// per rank. Each input is read at a
// random moment between start and end; outputs are poisoned at the start and right at the end; what
// was never written differs from seed to seed. So a race gives another result for some seed.
//
// Programs of one plan with and without offload or recomputation give the same hash; with interleaved
// updates (as `set.plan` says it) updates take nothing from the scalars.
//
// As in the runtime, the message in a received buffer is that of the last Receive before in the
// list, the one in a sending buffer that of the next Send.

#include "model/model.hpp"
#include "program/program.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace evener::support {

struct SymbolicResult {
    std::uint64_t hash = 0; ///< of all master weights, weights, losses and the norm at the end
    bool deadlock = false;
    std::vector<std::string> faults; ///< memory out of bounds, messages that differ at both ends

    friend bool operator==(SymbolicResult const&, SymbolicResult const&) = default;
};

/// Ids in the programs must be in range and waits look back.
SymbolicResult run_symbolic(program::ProgramSet const& set, model::Model const& model,
                            std::uint64_t seed);

} // namespace evener::support
