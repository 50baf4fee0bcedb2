// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_exchange.hpp"

#include <algorithm>

namespace evener::runtime {

bool DeviceExchange::runs(program::ProgramSet const& set, program::Program const& program,
                          program::Instruction const& instruction) const {
    auto const* const reduce = std::get_if<program::ReduceGradients>(&instruction.operation);
    auto const* const gather = std::get_if<program::GatherParameters>(&instruction.operation);
    if (group == nullptr || (reduce == nullptr && gather == nullptr))
        return false;
    program::Bucket const& bucket =
        set.buckets[(reduce != nullptr ? reduce->bucket : gather->bucket).index()];
    bool const on_device =
        std::all_of(instruction.uses.begin(), instruction.uses.end(), [&](program::Use const& use) {
            return program.buffers[use.buffer.index()].memory == program::Memory::device;
        });
    return on_device && bucket.holders == ranks && bucket.members == ranks;
}

} // namespace evener::runtime
