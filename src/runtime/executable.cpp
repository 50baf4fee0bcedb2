// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable.hpp"

#include "runtime/chunk_calls.hpp"
#include "runtime/device_collectives.hpp"
#include "runtime/pinned_memory.hpp"
#include "runtime/transport_tasks.hpp"

#include <algorithm>
#include <optional>

namespace evener::runtime {

using program::Instruction;

namespace {

/// Of the queues that the compute thread works on.
std::optional<kernels::StreamKind> stream_of(program::QueueKind kind) {
    switch (kind) {
    case program::QueueKind::compute:
        return kernels::StreamKind::compute;
    case program::QueueKind::copy_in:
        return kernels::StreamKind::copy_in;
    case program::QueueKind::copy_out:
        return kernels::StreamKind::copy_out;
    case program::QueueKind::send:
    case program::QueueKind::receive:
    case program::QueueKind::collective:
        break;
    }
    return std::nullopt;
}

class Maker {
  public:
    explicit Maker(ExecutableInput const& input)
        : input_{input}, program_{input.set.programs[input.rank.index()]},
          memory_{map_buckets(input.set, input.rank, input.regions, input.kept_gradients)},
          numbers_{std::make_shared<SharedNumbers const>(input.numbers,
                                                         input.state.sequence_losses.size(),
                                                         square_count(input.set, input.rank))},
          collectives_{input, program_}, chunks_{input, program_, memory_, *numbers_} {}

    Executable make() {
        Executable executable;
        executable.instructions = program_.instructions.size();
        executable.workspace = chunks_.device_workspace();
        executable.numbers = numbers_;
        input_.state.squares.clear();
        input_.state.head_sequences.clear();
        for (std::size_t i = 0; i < program_.instructions.size(); ++i) {
            Instruction const& instruction = program_.instructions[i];
            core::InstructionId const id{static_cast<std::int64_t>(i)};
            program::Queue const& queue = program_.queues[instruction.queue.index()];
            if (collectives_.runs(id))
                executable.issued.push_back({id,
                                             kernels::StreamKind::collective,
                                             program::to_string(instruction.operation),
                                             collectives_.after(id),
                                             {collectives_.call(id)}});
            else if (std::optional<kernels::StreamKind> const stream = stream_of(queue.kind))
                executable.issued.push_back({id, *stream, program::to_string(instruction.operation),
                                             instruction.after, calls(instruction, id)});
        }
        executable.transport =
            make_transport_queues(input_, program_, {memory_, *numbers_, collectives_});
        return executable;
    }

  private:
    std::vector<Call> calls(Instruction const& instruction, core::InstructionId id) {
        UsedBuffers const used{program_, instruction, input_.regions};
        return std::visit(
            [&](auto const& op) -> std::vector<Call> {
                using Op = std::decay_t<decltype(op)>;
                if constexpr (std::is_base_of_v<program::Compute, Op>) {
                    note_head(op);
                    return chunks_.make(op, instruction, id);
                } else if constexpr (std::is_same_v<Op, program::MeasureGradients>) {
                    return measure(memory_[op.bucket.index()], used);
                } else if constexpr (std::is_same_v<Op, program::UpdateParameters>) {
                    return update(memory_[op.bucket.index()], used);
                } else if constexpr (std::is_base_of_v<program::Copy, Op>) {
                    return copy(op, used, std::is_same_v<Op, program::Fetch>);
                } else if constexpr (std::is_same_v<Op, program::CountTokens>) {
                    Call call;
                    call.kind = Call::Kind::count_tokens;
                    return {call};
                } else {
                    EVENER_EXPECT(!"an instruction of the transport on a queue of the device");
                    return {};
                }
            },
            instruction.operation);
    }

    /// Remembers the sequences whose losses this rank computes, once each.
    void note_head(program::Compute const& op) {
        auto& ranges = input_.state.head_sequences;
        if (op.layers.end == input_.model.layer_count() &&
            std::find(ranges.begin(), ranges.end(), op.sequences) == ranges.end())
            ranges.push_back(op.sequences);
    }

    Call kernel(kernels::OperationShape const& shape, std::vector<void*> const& operands) {
        Call call;
        call.operation = &input_.cache.get(shape);
        call.operand_count = operands.size();
        std::copy(operands.begin(), operands.end(), call.operands.begin());
        return call;
    }

    static Call copy_call(void* dst, void* src, std::int64_t bytes) {
        Call call;
        call.kind = Call::Kind::copy;
        call.operands = {dst, src};
        call.operand_count = 2;
        call.bytes = bytes;
        return call;
    }

    std::vector<Call> copy(program::Copy const& op, UsedBuffers const& used, bool fetch) const {
        std::byte* home = used.in(program::Memory::pinned);
        std::byte* const device = used.in(program::Memory::device);
        std::vector<Call> calls;
        if (op.kind == program::BufferKind::updated) { // the shard's part of the weights
            BucketMemory const& memory = memory_[op.bucket.index()];
            home += memory.weights_at(memory.shard.begin) - memory.weights;
            add_skip(calls); // a skipped update has written nothing
        }
        calls.push_back(fetch ? copy_call(device, home, op.bytes)
                              : copy_call(home, device, op.bytes));
        return calls;
    }

    /// What follows is left out where the step is skipped; interleaved updates skip nothing, since
    /// nothing may depend on the scalars.
    void add_skip(std::vector<Call>& calls) const {
        if (input_.set.plan.interleaved_updates)
            return;
        calls.emplace_back();
        calls.back().kind = Call::Kind::skip_if_not_finite;
    }

    std::vector<Call> measure(BucketMemory const& memory, UsedBuffers const& used) {
        float* const reduced = used.reduced(memory.bucket->id);
        std::vector<Call> calls;
        for (program::Slice const& slice : program::slices_of(*memory.bucket, memory.shard)) {
            double* const square = numbers_->squares() + input_.state.squares.size();
            input_.state.squares.push_back({slice.parameter, slice.rows.begin, 0});
            kernels::OperationShape shape;
            shape.kind = kernels::OperationKind::sum_squares;
            shape.sum_squares = {slice.elements()};
            calls.push_back(kernel(shape, {reduced + (slice.offset - memory.shard.begin), square}));
        }
        if (memory.kept_gradient != nullptr)
            calls.push_back(copy_call(memory.kept_gradient, reduced, 4 * memory.shard.size()));
        return calls;
    }

    /// Into the weights that computations read, or the buffer that goes to their home.
    std::vector<Call> update(BucketMemory const& memory, UsedBuffers const& used) {
        std::vector<Call> calls;
        add_skip(calls);
        core::BucketId const bucket = memory.bucket->id;
        std::int64_t const elements = memory.shard.size();
        auto* const master =
            reinterpret_cast<float*>(used.find(program::BufferKind::shards, bucket));
        float* const reduced = used.reduced(bucket);
        std::byte* const updated = used.find(program::BufferKind::updated, bucket);
        std::byte* const weights =
            updated != nullptr ? updated
                               : used.find(program::BufferKind::weights, bucket) +
                                     (memory.weights_at(memory.shard.begin) - memory.weights);
        for (program::Slice const& slice : program::slices_of(*memory.bucket, memory.shard)) {
            std::int64_t const begin = slice.offset - memory.shard.begin;
            void* const target = weights + begin * core::bytes_of(memory.type);
            void* const scalars = input_.model.parameter(slice.parameter).decayed
                                      ? numbers_->decayed()
                                      : numbers_->not_decayed();
            kernels::OperationShape shape;
            shape.kind = input_.adamw ? kernels::OperationKind::adamw : kernels::OperationKind::sgd;
            shape.optimizer = {slice.elements(), device::element_of(memory.type)};
            if (input_.adamw)
                calls.push_back(kernel(shape, {master + begin, master + elements + begin,
                                               master + 2 * elements + begin, reduced + begin,
                                               target, scalars}));
            else
                calls.push_back(kernel(shape, {master + begin, reduced + begin, target, scalars}));
        }
        return calls;
    }

    ExecutableInput const& input_;
    program::Program const& program_;
    std::vector<BucketMemory> memory_;
    std::shared_ptr<SharedNumbers const> numbers_;
    DeviceCollectives collectives_;
    ChunkCalls chunks_;
};

} // namespace

Executable make_executable(ExecutableInput const& input) {
    return Maker{input}.make();
}

} // namespace evener::runtime
