// SPDX-License-Identifier: Apache-2.0
#include "runtime/executable.hpp"

#include "runtime/chunk_calls.hpp"
#include "runtime/transport_tasks.hpp"

#include <algorithm>

namespace evener::runtime {

using program::Instruction;

namespace {

class Maker {
  public:
    explicit Maker(ExecutableInput const& input)
        : input_{input}, program_{input.set.programs[input.rank.index()]},
          memory_{map_buckets(input.set, input.rank, input.arena)},
          numbers_{std::make_shared<SharedNumbers const>(
              input.cache.device(), input.state.sequence_losses.size(), square_count())},
          chunks_{input, program_, memory_, *numbers_} {}

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
            if (queue.kind == program::QueueKind::compute)
                executable.compute.push_back({id, program::to_string(instruction.operation),
                                              instruction.after, calls(instruction, id)});
        }
        executable.transport = make_transport_queues(input_, program_, memory_, *numbers_);
        return executable;
    }

  private:
    /// How many squares the program's instructions measure.
    std::size_t square_count() const {
        std::size_t count = 0;
        for (Instruction const& instruction : program_.instructions)
            if (auto const* op = std::get_if<program::MeasureGradients>(&instruction.operation)) {
                BucketMemory const& memory = memory_[op->bucket.index()];
                count += program::slices_of(*memory.bucket, memory.shard).size();
            }
        return count;
    }

    std::vector<Call> calls(Instruction const& instruction, core::InstructionId id) {
        return std::visit(
            [&](auto const& op) -> std::vector<Call> {
                using Op = std::decay_t<decltype(op)>;
                if constexpr (std::is_base_of_v<program::Compute, Op> &&
                              !std::is_same_v<Op, program::Recompute>) {
                    note_head(op);
                    return chunks_.make(op, instruction, id);
                } else if constexpr (std::is_same_v<Op, program::MeasureGradients>) {
                    return measure(memory_[op.bucket.index()]);
                } else if constexpr (std::is_same_v<Op, program::UpdateParameters>) {
                    return update(memory_[op.bucket.index()]);
                } else if constexpr (std::is_same_v<Op, program::CountTokens>) {
                    Call call;
                    call.kind = Call::Kind::count_tokens;
                    return {call};
                } else {
                    EVENER_EXPECT(!"an instruction of another queue on the compute queue");
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

    std::vector<Call> measure(BucketMemory const& memory) {
        std::vector<Call> calls;
        for (program::Slice const& slice : program::slices_of(*memory.bucket, memory.shard)) {
            double* const square = numbers_->squares() + input_.state.squares.size();
            input_.state.squares.push_back({slice.parameter, slice.rows.begin, 0});
            kernels::OperationShape shape;
            shape.kind = kernels::OperationKind::sum_squares;
            shape.sum_squares = {slice.elements()};
            calls.push_back(
                kernel(shape, {memory.reduced + (slice.offset - memory.shard.begin), square}));
        }
        return calls;
    }

    std::vector<Call> update(BucketMemory const& memory) {
        std::vector<Call> calls(1);
        calls.front().kind = Call::Kind::skip_if_not_finite;
        for (program::Slice const& slice : program::slices_of(*memory.bucket, memory.shard)) {
            std::int64_t const begin = slice.offset - memory.shard.begin;
            void* const weights = memory.weights_at(slice.offset);
            void* const scalars = input_.model.parameter(slice.parameter).decayed
                                      ? numbers_->decayed()
                                      : numbers_->not_decayed();
            kernels::OperationShape shape;
            shape.kind = input_.adamw ? kernels::OperationKind::adamw : kernels::OperationKind::sgd;
            shape.optimizer = {slice.elements(), device::element_of(memory.type)};
            if (input_.adamw)
                calls.push_back(kernel(shape, {memory.master + begin, memory.moment1 + begin,
                                               memory.moment2 + begin, memory.reduced + begin,
                                               weights, scalars}));
            else
                calls.push_back(kernel(
                    shape, {memory.master + begin, memory.reduced + begin, weights, scalars}));
        }
        return calls;
    }

    ExecutableInput const& input_;
    program::Program const& program_;
    std::vector<BucketMemory> memory_;
    std::shared_ptr<SharedNumbers const> numbers_;
    ChunkCalls chunks_;
};

} // namespace

Executable make_executable(ExecutableInput const& input) {
    return Maker{input}.make();
}

} // namespace evener::runtime
