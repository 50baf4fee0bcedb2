// SPDX-License-Identifier: Apache-2.0
#pragma once

// Mutants: a sound set of programs with one thing wrong, made from a seed.

#include "program/program.hpp"
#include "support/random_plan.hpp"

#include <string>
#include <vector>

namespace evener::schedule {

struct Mutant {
    program::ProgramSet set;
    std::string what;               ///< in words
    std::vector<std::string> names; ///< of the mutated instructions, before and after
    std::vector<std::string>
        affected; ///< of those that share a buffer, a wait or a message with them
};

/// One instruction or wait removed, duplicated, swapped or retargeted, or one byte count changed.
Mutant make_mutant(program::ProgramSet const& sound, support::Random& random);

} // namespace evener::schedule
