// SPDX-License-Identifier: Apache-2.0
#include "runtime/transport_tasks.hpp"

#include <algorithm>
#include <functional>
#include <optional>

namespace evener::runtime {

using program::Instruction;
using program::QueueKind;

namespace {

comm::Direction direction_of(program::Direction direction) {
    return direction == program::Direction::forward ? comm::Direction::forward
                                                    : comm::Direction::backward;
}

/// Makes the work of one instruction.
struct MakeWork {
    ExecutableInput const& input;
    program::Program const& program;
    std::vector<BucketMemory> const& memory;
    Instruction const& instruction;
    SharedNumbers const& numbers;

    UsedBuffers used() const { return {program, instruction, input.regions}; }
    std::byte* buffer() const {
        return input.regions.of(program.buffers[instruction.uses.front().buffer.index()]);
    }
    std::int64_t tag(program::Message const& op) const {
        return program::message_tag(op, input.set.plan.microbatch_count());
    }
    std::vector<comm::OwnedPart> parts(program::Bucket const& bucket) const {
        std::vector<comm::OwnedPart> result;
        for (program::Shard const& shard : bucket.shards)
            result.push_back({shard.owner, shard.elements, bucket.type_of(shard.owner)});
        return result;
    }

    comm::Work operator()(program::Send const& op) const {
        return comm::SendTask{op.peer, direction_of(op.direction), tag(op), buffer(), op.bytes};
    }
    comm::Work operator()(program::Receive const& op) const {
        return comm::ReceiveTask{op.peer, direction_of(op.direction), tag(op), buffer(), op.bytes};
    }
    comm::Work operator()(program::GatherParameters const& op) const {
        BucketMemory const& own = memory[op.bucket.index()];
        program::Bucket const& bucket = *own.bucket;
        comm::GatherTask task;
        task.shards = parts(bucket);
        for (core::RankId const rank : bucket.holders)
            task.holders.push_back({rank, bucket.type_of(rank)});
        task.weights = own.weights;
        task.weights_range = own.weights_range;
        if (std::adjacent_find(bucket.types.begin(), bucket.types.end(), std::not_equal_to<>{}) !=
            bucket.types.end())
            task.master = own.master; // members round the master weights themselves
        task.tag = 2 * op.bucket.value;
        return task;
    }
    comm::Work operator()(program::ReduceGradients const& op) const {
        BucketMemory const& own = memory[op.bucket.index()];
        comm::ReduceTask task;
        task.contributors = own.bucket->holders;
        task.shards = parts(*own.bucket);
        task.gradient =
            reinterpret_cast<float*>(used().find(program::BufferKind::gradients, op.bucket));
        task.reduced =
            reinterpret_cast<float*>(used().find(program::BufferKind::reduced, op.bucket));
        task.tag = 2 * op.bucket.value + 1;
        return task;
    }
    comm::Work operator()(program::ReduceScalars const&) const {
        StepState* const state = &input.state;
        SharedNumbers const* const shared = &numbers;
        // Updates that are interleaved wait for no scalars and may be reading them now.
        bool const clips = !input.set.plan.interleaved_updates;
        return comm::ScalarsTask{
            [state, shared] {
                shared->take(*state);
                return contribution(*state);
            },
            [](std::vector<std::vector<std::byte>> const& all) { return combine(all); },
            [state, shared, clips](std::span<std::byte const> bytes) {
                state->scalars = decode_scalars(bytes);
                if (!clips)
                    return;
                float const clip = clip_factor(state->scalars, state->clip_norm);
                state->decayed.grad_scale = clip;
                state->not_decayed.grad_scale = clip;
                shared->give(*state);
            }};
    }
    template <class Op>
    comm::Work operator()(Op const&) const {
        EVENER_EXPECT(!"a computation on a queue of the transport");
        return comm::SendTask{};
    }
};

/// None of the queues that the compute thread works on.
std::optional<comm::TransportQueue::Kind> kind_of(QueueKind kind) {
    switch (kind) {
    case QueueKind::send:
        return comm::TransportQueue::Kind::send;
    case QueueKind::receive:
        return comm::TransportQueue::Kind::receive;
    case QueueKind::collective:
        return comm::TransportQueue::Kind::collective;
    case QueueKind::compute:
    case QueueKind::copy_in:
    case QueueKind::copy_out:
        break;
    }
    return std::nullopt;
}

} // namespace

std::vector<comm::TransportQueue> make_transport_queues(ExecutableInput const& input,
                                                        program::Program const& program,
                                                        TaskParts const& parts) {
    std::vector<comm::TransportQueue> queues;
    for (std::size_t q = 0; q < program.queues.size(); ++q) {
        std::optional<comm::TransportQueue::Kind> const kind = kind_of(program.queues[q].kind);
        if (!kind)
            continue;
        comm::TransportQueue& queue = queues.emplace_back();
        queue.kind = *kind;
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            Instruction const& instruction = program.instructions[i];
            core::InstructionId const id{static_cast<std::int64_t>(i)};
            if (instruction.queue.index() != q || parts.collectives.runs(id))
                continue;
            queue.tasks.push_back(
                {id, parts.collectives.after(id),
                 std::visit(MakeWork{input, program, parts.memory, instruction, parts.numbers},
                            instruction.operation)});
        }
    }
    return queues;
}

} // namespace evener::runtime
