// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_collectives.hpp"

#include <algorithm>
#include <memory>

namespace evener::runtime {

using core::InstructionId;
using program::BufferKind;
using program::Instruction;

namespace {

/// The bucket that the instruction reduces or gathers.
core::BucketId bucket_of(Instruction const& instruction) {
    if (auto const* const reduce = std::get_if<program::ReduceGradients>(&instruction.operation))
        return reduce->bucket;
    return std::get<program::GatherParameters>(instruction.operation).bucket;
}

} // namespace

DeviceCollectives::DeviceCollectives(ExecutableInput const& input, program::Program const& program)
    : input_{input}, program_{program}, runs_(program.instructions.size()),
      previous_(program.instructions.size()) {
    InstructionId last;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        Instruction const& instruction = program.instructions[i];
        if (program.queues[instruction.queue.index()].kind != program::QueueKind::collective)
            continue;
        runs_[i] = input.exchange.runs(input.set, program, instruction);
        if (last.valid() && runs_[last.index()] != runs_[i])
            previous_[i] = last;
        last = InstructionId{static_cast<std::int64_t>(i)};
    }
}

std::vector<InstructionId> DeviceCollectives::after(InstructionId id) const {
    std::vector<InstructionId> result = program_.instructions[id.index()].after;
    InstructionId const previous = previous_[id.index()];
    if (!previous.valid())
        return result;
    auto const place = std::lower_bound(result.begin(), result.end(), previous);
    if (place == result.end() || *place != previous)
        result.insert(place, previous);
    return result;
}

std::vector<kernels::GroupPart> DeviceCollectives::parts(program::Bucket const& bucket) const {
    std::vector<core::RankId> const& ranks = input_.exchange.ranks;
    std::vector<kernels::GroupPart> result;
    for (program::Shard const& shard : bucket.shards) {
        auto const owner = std::lower_bound(ranks.begin(), ranks.end(), shard.owner);
        result.push_back(
            {static_cast<int>(owner - ranks.begin()), shard.elements.begin, shard.elements.end});
    }
    return result;
}

Call DeviceCollectives::call(InstructionId id) const {
    Instruction const& instruction = program_.instructions[id.index()];
    program::Bucket const& bucket = input_.set.buckets[bucket_of(instruction).index()];
    UsedBuffers const used{program_, instruction, input_.regions};
    Call call;
    call.parts = std::make_shared<std::vector<kernels::GroupPart> const>(parts(bucket));
    if (std::holds_alternative<program::ReduceGradients>(instruction.operation)) {
        call.kind = Call::Kind::reduce;
        call.operands = {used.find(BufferKind::gradients, bucket.id),
                         used.find(BufferKind::reduced, bucket.id)};
        call.operand_count = 2;
    } else {
        call.kind = Call::Kind::gather;
        call.operands = {used.find(BufferKind::weights, bucket.id)};
        call.operand_count = 1;
        call.type = bucket.type_of(input_.rank);
    }
    return call;
}

} // namespace evener::runtime
