// SPDX-License-Identifier: Apache-2.0
#pragma once

// Proves a set of programs right before anything runs: no deadlock, all work done once and by whom
// the plan says, messages that match, buffers written, read, ended and reused in an order that
// holds in every run. It derives what must hold from the plan and the model, never from how
// lowering works, and what happens before what from HappensBefore, never from the order of a list.

#include "model/model.hpp"
#include "program/program.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace evener::schedule {

struct Problem {
    core::RankId rank;
    core::InstructionId instruction; ///< invalid where one is missing
    std::string message;             ///< names the instruction as name_of() does
};

/// Everything that is wrong; empty = proven. Problems that make further checks meaningless (ids out
/// of range, a deadlock) end the search. `device_workspace_bytes` is what the prepared operations
/// of each rank's device ask for on top of the model's own workspace; `moments` the optimizer's
/// moments per parameter.
std::vector<Problem> verify(program::ProgramSet const& set, model::Model const& model,
                            std::vector<std::int64_t> const& device_workspace_bytes,
                            std::int64_t moments = 2);

/// That two sets of programs which take turns on one arena (training, validation) keep the same
/// persistent buffers at the same places.
std::vector<Problem> verify_persistent(program::ProgramSet const& a, program::ProgramSet const& b);

/// `receive forward chunk 0 microbatch 3 from rank 1 on rank 2`.
std::string name_of(core::RankId rank, program::Operation const& operation);

} // namespace evener::schedule
