// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finding and changing instructions of lowered programs, for tests that break them.

#include "schedule/verify.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <string>
#include <vector>

namespace evener::schedule {

inline std::string all_messages(std::vector<Problem> const& problems) {
    std::string text;
    for (Problem const& problem : problems)
        text += problem.message + "\n";
    return text;
}

using InstructionTest = std::function<bool(program::Instruction const&)>;

/// The n-th instruction that passes the test.
inline std::size_t find(program::Program const& program, InstructionTest const& test, int n = 0) {
    for (std::size_t i = 0; i < program.instructions.size(); ++i)
        if (test(program.instructions[i]) && n-- == 0)
            return i;
    ADD_FAILURE() << "no such instruction in\n" << to_string(program);
    return 0;
}

template <class Op>
bool is_a(program::Instruction const& instruction) {
    return std::holds_alternative<Op>(instruction.operation);
}

/// Takes the instruction out; waits of others for it go too.
inline void remove(program::Program& program, std::size_t at) {
    program.instructions.erase(program.instructions.begin() + static_cast<std::ptrdiff_t>(at));
    for (program::Instruction& instruction : program.instructions) {
        std::erase(instruction.after, core::InstructionId{static_cast<std::int64_t>(at)});
        for (core::InstructionId& id : instruction.after)
            if (id.index() > at)
                --id.value;
    }
}

/// Puts instruction `from` in front of instruction `to` < `from`. Its waits for what is then behind
/// it go.
inline void move_ahead(program::Program& program, std::size_t from, std::size_t to) {
    std::vector<std::int64_t> place(program.instructions.size());
    std::iota(place.begin(), place.end(), 0);
    for (std::size_t i = to; i < from; ++i)
        ++place[i];
    place[from] = static_cast<std::int64_t>(to);
    auto const first = program.instructions.begin();
    std::rotate(first + static_cast<std::ptrdiff_t>(to), first + static_cast<std::ptrdiff_t>(from),
                first + static_cast<std::ptrdiff_t>(from) + 1);
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        std::set<core::InstructionId> after;
        for (core::InstructionId const id : program.instructions[i].after)
            if (core::InstructionId const now{place[id.index()]}; now.index() < i)
                after.insert(now);
        program.instructions[i].after.assign(after.begin(), after.end());
    }
}

} // namespace evener::schedule
