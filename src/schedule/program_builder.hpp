// SPDX-License-Identifier: Apache-2.0
#pragma once

// A rank's program while it is being written: queues on demand, buffers, instructions in list order.
// Internal to this folder.

#include "program/program.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

namespace evener::schedule {

class ProgramBuilder {
  public:
    explicit ProgramBuilder(core::RankId rank) { program_.rank = rank; }

    /// The queue of that kind, peer and direction; made when asked for the first time.
    core::QueueId queue(program::Queue const& wanted) {
        auto const found = std::find(program_.queues.begin(), program_.queues.end(), wanted);
        core::QueueId const id{found - program_.queues.begin()};
        if (found == program_.queues.end())
            program_.queues.push_back(wanted);
        return id;
    }

    core::BufferId add_buffer(program::Buffer const& buffer) {
        program_.buffers.push_back(buffer);
        return core::BufferId{std::ssize(program_.buffers) - 1};
    }
    program::Buffer& buffer(core::BufferId id) { return program_.buffers[id.index()]; }

    core::InstructionId add(program::Operation operation, core::QueueId queue,
                            std::set<core::InstructionId> const& after,
                            std::vector<program::Use> uses) {
        program_.instructions.push_back(
            {std::move(operation), queue, {after.begin(), after.end()}, std::move(uses)});
        return core::InstructionId{std::ssize(program_.instructions) - 1};
    }
    /// Id of the instruction that comes next.
    core::InstructionId next() const {
        return core::InstructionId{std::ssize(program_.instructions)};
    }

    program::Program take() { return std::move(program_); }

  private:
    program::Program program_;
};

} // namespace evener::schedule
