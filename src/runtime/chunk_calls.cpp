// SPDX-License-Identifier: Apache-2.0
#include "runtime/chunk_calls.hpp"

#include <algorithm>

namespace evener::runtime {

using core::BufferId;
using core::InstructionId;
using core::LayerId;
using core::Range;
using model::ChunkLayout;
using model::ChunkPass;
using program::Access;
using program::BufferKind;
using program::Instruction;

ChunkCalls::ChunkCalls(ExecutableInput const& input, program::Program const& program,
                       std::vector<BucketMemory> const& memory, SharedNumbers const& numbers)
    : input_{input}, program_{program}, memory_{memory}, numbers_{numbers} {
    for (program::Buffer const& buffer : program.buffers)
        if (buffer.kind == BufferKind::workspace) {
            workspace_ = input.regions.of(buffer);
            workspace_bytes_ = buffer.bytes - input.device_workspace_bytes;
        }
    for (program::Bucket const& bucket : input.set.buckets)
        for (program::BucketParameter const& entry : bucket.parameters)
            places_[entry.parameter] = {bucket.id, entry.offset};
}

ChunkLayout const& ChunkCalls::layout_of(program::Compute const& op) {
    auto const [found, added] = layouts_.try_emplace({op.chunk, op.sequences.size()});
    if (added)
        found->second = model::chunk_layout(input_.model, op.layers, op.sequences.size(),
                                            input_.set.plan.group_of(op.chunk).compute);
    return found->second;
}

std::byte* ChunkCalls::buffer(BufferKind kind, core::BucketId bucket) const {
    std::byte* const found = used().find(kind, bucket);
    EVENER_EXPECT(found != nullptr);
    return found;
}

void* ChunkCalls::resolve(model::Operand operand, Areas const& areas, LayerId layer,
                          Range sequences) const {
    auto const at = [&](std::byte* base) -> void* { return base + operand.offset; };
    switch (operand.area) {
    case model::Area::none:
        return nullptr;
    case model::Area::kept:
        return at(areas.kept);
    case model::Area::kept_for_weights:
        return at(areas.kept_for_weights);
    case model::Area::scratch:
        return at(areas.scratch);
    case model::Area::output:
        return at(areas.output);
    case model::Area::grad_input:
        return at(areas.grad_input);
    case model::Area::parameter:
    case model::Area::parameter_gradient: {
        auto const id = input_.model.parameters_of(layer)[static_cast<std::size_t>(operand.offset)];
        auto const [bucket, offset] = places_.at(id);
        if (operand.area == model::Area::parameter)
            return buffer(BufferKind::weights, bucket) +
                   offset * core::bytes_of(memory_[bucket.index()].type);
        return buffer(BufferKind::gradients, bucket) + 4 * offset;
    }
    case model::Area::loss_scale:
        return numbers_.loss_scale();
    case model::Area::sequence_losses:
        return numbers_.sequence_losses() + sequences.begin;
    }
    return nullptr;
}

void ChunkCalls::add_phase(std::vector<Call>& calls,
                           std::vector<model::Operation> const& operations, Areas const& areas,
                           LayerId layer, Range sequences) {
    for (model::Operation const& operation : operations) {
        Call call;
        call.operand_count = operation.operands.size();
        EVENER_EXPECT(call.operand_count <= most_operands);
        for (std::size_t i = 0; i < call.operand_count; ++i)
            call.operands[i] = resolve(operation.operands[i], areas, layer, sequences);
        switch (operation.kind) {
        case model::Operation::Kind::kernel:
            call.operation = &input_.cache.get(first_write(operation, layer));
            break;
        case model::Operation::Kind::load_inputs:
            call.kind = Call::Kind::load_inputs;
            call.sequences = sequences;
            break;
        case model::Operation::Kind::load_targets:
            call.kind = Call::Kind::load_targets;
            call.sequences = sequences;
            break;
        }
        calls.push_back(call);
    }
}

void ChunkCalls::count_time(std::vector<Call>& calls, std::size_t first, std::int32_t bin,
                            double amount) {
    for (std::size_t i = first; i < calls.size(); ++i) {
        calls[i].bin = bin;
        calls[i].amount = i == first ? amount : 0;
    }
}

/// The head gives the logits of one position: its row becomes the head's input.
void ChunkCalls::add_next_token(std::vector<Call>& calls, model::LayerOperations const& head,
                                Areas const& areas, LayerId layer) {
    Areas row = areas;
    row.kept = areas.scratch + head.scratch_of(model::Phase::next_token);
    row.output = reinterpret_cast<std::byte*>(input_.logits);
    Call select;
    select.kind = Call::Kind::select_row;
    select.operands = {areas.kept, row.kept};
    select.operand_count = 2;
    select.bytes =
        model::boundary_bytes(
            input_.model.config(), 1,
            input_.set.plan.group_of(core::ChunkId{std::ssize(input_.set.plan.chunks) - 1})
                .compute) /
        input_.model.config().sequence_length;
    calls.push_back(select);
    add_phase(calls, head.of(model::Phase::next_token), row, layer, {});
}

namespace {

/// Elements of the parameter gradient that an operation adds to; 0 when it adds to none.
std::int64_t gradient_elements(model::Operation const& operation) {
    if (operation.operands.empty() ||
        operation.operands.back().area != model::Area::parameter_gradient)
        return 0;
    kernels::OperationShape const& shape = operation.shape;
    switch (shape.kind) {
    case kernels::OperationKind::matmul:
        return shape.matmul.m * shape.matmul.n;
    case kernels::OperationKind::rms_norm_weight_gradient:
        return shape.rms_norm.cols;
    case kernels::OperationKind::column_sums:
        return shape.column_sums.cols;
    case kernels::OperationKind::embedding_gradient:
        return shape.embedding.vocabulary * shape.embedding.cols;
    default:
        EVENER_EXPECT(!"an operation that adds to no gradient");
        return 0;
    }
}

} // namespace

/// The operation's shape. Where a gradient starts from zero in this instruction, the first product
/// that adds to it overwrites it instead, which saves a pass over it; anything else that comes
/// first needs it cleared.
kernels::OperationShape ChunkCalls::first_write(model::Operation const& operation, LayerId layer) {
    kernels::OperationShape shape = operation.shape;
    std::int64_t const elements = gradient_elements(operation);
    if (elements == 0)
        return shape;
    auto const index = static_cast<std::size_t>(operation.operands.back().offset);
    auto const [bucket, begin] = places_.at(input_.model.parameters_of(layer)[index]);
    Range const written{begin, begin + elements};
    std::vector<Range>& untouched = untouched_[bucket];
    for (std::size_t i = 0; i < untouched.size(); ++i) {
        Range const range = untouched[i];
        if (written.begin < range.begin || range.end < written.end)
            continue;
        untouched[i].end = written.begin;
        untouched.push_back({written.end, range.end});
        if (shape.kind == kernels::OperationKind::matmul)
            shape.matmul.accumulate = false;
        else
            to_clear_[bucket].push_back(written);
        break;
    }
    return shape;
}

std::vector<Call> ChunkCalls::take_clears() {
    std::vector<Call> calls;
    for (auto* const set : {&to_clear_, &untouched_}) {
        for (auto const& [id, ranges] : *set)
            for (Range const range : ranges) {
                if (range.empty())
                    continue;
                kernels::OperationShape shape;
                shape.kind = kernels::OperationKind::clear;
                shape.clear = {range.size() * 4};
                Call call;
                call.operation = &input_.cache.get(shape);
                call.operands[0] = buffer(BufferKind::gradients, id) + 4 * range.begin;
                call.operand_count = 1;
                calls.push_back(call);
            }
        set->clear();
    }
    return calls;
}

program::Message ChunkCalls::message_of(BufferId buffer, InstructionId id, Access access) const {
    // What the instruction reads was written by the last Receive before it; what it writes is sent
    // by the first Send behind it.
    auto const touches = [&](Instruction const& instruction) {
        return std::any_of(instruction.uses.begin(), instruction.uses.end(),
                           [&](program::Use const& use) { return use.buffer == buffer; });
    };
    auto const& list = program_.instructions;
    if (access == Access::read) {
        for (std::size_t i = id.index(); i-- > 0;)
            if (auto const* op = std::get_if<program::Receive>(&list[i].operation);
                op != nullptr && touches(list[i]))
                return *op;
    } else {
        for (std::size_t i = id.index() + 1; i < list.size(); ++i)
            if (auto const* op = std::get_if<program::Send>(&list[i].operation);
                op != nullptr && touches(list[i]))
                return *op;
    }
    EVENER_EXPECT(!"a message buffer without its message");
    return {};
}

void ChunkCalls::add_convert(std::vector<Call>& calls, std::byte* src, core::DType src_type,
                             std::byte* dst, core::DType dst_type, std::int64_t elements) {
    kernels::OperationShape shape;
    shape.kind = kernels::OperationKind::convert;
    shape.convert = {elements, device::element_of(src_type), device::element_of(dst_type)};
    Call call;
    call.operation = &input_.cache.get(shape);
    call.operands = {src, dst};
    call.operand_count = 2;
    calls.push_back(call);
}

void ChunkCalls::add_pieces(std::vector<Call>& calls, program::Compute const& op,
                            Instruction const& instruction, InstructionId id, Access access,
                            std::byte* tensor, core::DType type) {
    std::int64_t const sequence_elements =
        input_.model.config().sequence_length * input_.model.config().hidden_size;
    for (program::Use const& use : instruction.uses) {
        program::Buffer const& buffer = program_.buffers[use.buffer.index()];
        bool const message =
            buffer.kind == BufferKind::received || buffer.kind == BufferKind::sending;
        if (use.access != access || (!message && buffer.kind != BufferKind::handover))
            continue;
        Range sequences = op.sequences; // two chunks of one rank see the same sequences
        core::ChunkId boundary = buffer.chunk;
        if (message) {
            program::Message const sent = message_of(use.buffer, id, access);
            sequences = sent.sequences;
            boundary = sent.chunk;
        }
        std::size_t const first = calls.size();
        core::DType const wire = input_.set.plan.boundary_types[boundary.index()];
        std::byte* const wired = input_.regions.of(buffer);
        std::byte* const part = tensor + (sequences.begin - op.sequences.begin) *
                                             sequence_elements * core::bytes_of(type);
        std::int64_t const elements = sequences.size() * sequence_elements;
        if (access == Access::read)
            add_convert(calls, wired, wire, part, type, elements);
        else
            add_convert(calls, part, type, wired, wire, elements);
        count_time(calls, first, boundary_bin(input_.model),
                   static_cast<double>(elements * core::bytes_of(type)));
    }
}

void ChunkCalls::add_layers(std::vector<Call>& calls, program::Compute const& op,
                            ForwardAreas const& places, model::Phase phase) {
    ChunkLayout const& layout = layout_of(op);
    std::size_t const count = layout.operations.size();
    auto const kept_of = [&](std::size_t j) {
        return places.kept != nullptr ? places.kept + layout.kept[j]
                                      : workspace_ + places.workspace.area[j % 2];
    };
    for (std::size_t j = 0; j < count; ++j) {
        LayerId const layer{op.layers.begin + static_cast<std::int64_t>(j)};
        Areas areas;
        areas.kept = kept_of(j);
        areas.scratch = workspace_ + places.workspace.scratch;
        areas.output = j + 1 < count ? kept_of(j + 1) : workspace_ + places.workspace.boundary;
        bool const head = !input_.model.layer(layer).has_output();
        std::size_t const first = calls.size();
        if (head && phase == model::Phase::evaluate && input_.head == HeadOutput::logits)
            add_next_token(calls, layout.operations[j], areas, layer);
        else
            add_phase(calls, layout.operations[j].of(phase), areas, layer, op.sequences);
        count_time(calls, first, clock_bin(layer, LayerPhase::forward),
                   static_cast<double>(op.sequences.size()));
    }
}

/// The chunk's input from where it was kept to where the first layer reads it.
void ChunkCalls::add_kept_input(std::vector<Call>& calls, program::Compute const& op,
                                std::byte* first_area) {
    core::DType const type = layout_of(op).compute;
    std::int64_t const bytes =
        model::boundary_bytes(input_.model.config(), op.sequences.size(), type);
    std::size_t const first = calls.size();
    add_convert(calls, buffer(BufferKind::inputs), type, first_area, type,
                bytes / core::bytes_of(type));
    count_time(calls, first, boundary_bin(input_.model), static_cast<double>(bytes));
}

/// Forward of a chunk that is recomputed.
std::vector<Call> ChunkCalls::dropping(program::Forward const& op, Instruction const& instruction,
                                       InstructionId id) {
    ChunkLayout const& layout = layout_of(op);
    model::Workspace const& places = layout.of(ChunkPass::forward_dropping);
    std::vector<Call> calls;
    if (layout.has_input)
        add_pieces(calls, op, instruction, id, Access::read, buffer(BufferKind::inputs),
                   layout.compute);
    if (!layout.has_output)
        return calls;
    if (layout.has_input)
        add_kept_input(calls, op, workspace_ + places.area[0]);
    add_layers(calls, op, {nullptr, places}, model::Phase::forward);
    add_pieces(calls, op, instruction, id, Access::write, workspace_ + places.boundary,
               layout.compute);
    return calls;
}

std::vector<Call> ChunkCalls::make(program::Forward const& op, Instruction const& instruction,
                                   InstructionId id) {
    instruction_ = &instruction;
    if (!op.evaluate && input_.set.plan.chunks[op.chunk.index()].recompute)
        return dropping(op, instruction, id);
    ChunkLayout const& layout = layout_of(op);
    model::Workspace const& places =
        layout.of(op.evaluate ? ChunkPass::evaluate : ChunkPass::forward);
    std::byte* const kept = op.evaluate ? nullptr : used().find(BufferKind::kept);
    std::vector<Call> calls;
    if (layout.has_input)
        add_pieces(calls, op, instruction, id, Access::read,
                   op.evaluate ? workspace_ + places.area[0] : kept, layout.compute);
    add_layers(calls, op, {kept, places},
               op.evaluate ? model::Phase::evaluate : model::Phase::forward);
    if (layout.has_output)
        add_pieces(calls, op, instruction, id, Access::write, workspace_ + places.boundary,
                   layout.compute);
    return calls;
}

std::vector<Call> ChunkCalls::make(program::Recompute const& op, Instruction const& instruction,
                                   InstructionId) {
    instruction_ = &instruction;
    ChunkLayout const& layout = layout_of(op);
    std::byte* const kept = used().find(BufferKind::kept);
    std::vector<Call> calls;
    if (layout.has_input)
        add_kept_input(calls, op, kept);
    add_layers(calls, op, {kept, layout.of(ChunkPass::forward)}, model::Phase::forward);
    return calls;
}

void ChunkCalls::add_backward(std::vector<Call>& calls, program::Compute const& op,
                              std::vector<core::BucketId> const& clears,
                              Instruction const& instruction, InstructionId id, ChunkPass pass) {
    instruction_ = &instruction;
    ChunkLayout const& layout = layout_of(op);
    model::Workspace const& places = layout.of(pass);
    std::byte* const kept = used().find(BufferKind::kept);
    std::byte* const kept_for_weights = used().find(BufferKind::kept_for_weights);
    std::size_t const count = layout.operations.size();
    bool const fused = pass == ChunkPass::backward;
    bool const with_input = pass != ChunkPass::backward_weight;
    auto const kept_for_weights_of = [&](std::size_t j) {
        return fused ? workspace_ + places.area[j % 2]
                     : kept_for_weights + layout.kept_for_weights[j];
    };
    for (core::BucketId const bucket : clears)
        untouched_[bucket] = {{0, memory_[bucket.index()].bucket->elements}};
    if (with_input && layout.has_output)
        add_pieces(calls, op, instruction, id, Access::read, kept_for_weights_of(count - 1),
                   layout.compute);
    for (std::size_t j = count; j-- > 0;) {
        LayerId const layer{op.layers.begin + static_cast<std::int64_t>(j)};
        model::LayerOperations const& operations = layout.operations[j];
        Areas areas;
        areas.kept = kept + layout.kept[j];
        areas.kept_for_weights = kept_for_weights_of(j);
        areas.scratch = workspace_ + places.scratch;
        areas.grad_input = j > 0 ? kept_for_weights_of(j - 1) : workspace_ + places.boundary;
        auto const sequences = static_cast<double>(op.sequences.size());
        if (with_input) {
            std::size_t const first = calls.size();
            add_phase(calls, operations.of(model::Phase::backward_input), areas, layer,
                      op.sequences);
            count_time(calls, first, clock_bin(layer, LayerPhase::backward_input), sequences);
        }
        if (pass != ChunkPass::backward_input) {
            std::size_t const first = calls.size();
            add_phase(calls, operations.of(model::Phase::backward_weight), areas, layer,
                      op.sequences);
            count_time(calls, first, clock_bin(layer, LayerPhase::backward_weight), sequences);
        }
    }
    if (with_input && layout.has_input)
        add_pieces(calls, op, instruction, id, Access::write, workspace_ + places.boundary,
                   layout.compute);
    std::vector<Call> const first = take_clears();
    calls.insert(calls.begin(), first.begin(), first.end());
}

std::vector<Call> ChunkCalls::make(program::Backward const& op, Instruction const& instruction,
                                   InstructionId id) {
    std::vector<Call> calls;
    add_backward(calls, op, op.clears, instruction, id, ChunkPass::backward);
    return calls;
}

std::vector<Call> ChunkCalls::make(program::BackwardInput const& op, Instruction const& instruction,
                                   InstructionId id) {
    std::vector<Call> calls;
    add_backward(calls, op, op.clears, instruction, id, ChunkPass::backward_input);
    return calls;
}

std::vector<Call> ChunkCalls::make(program::BackwardWeight const& op,
                                   Instruction const& instruction, InstructionId id) {
    std::vector<Call> calls;
    add_backward(calls, op, op.clears, instruction, id, ChunkPass::backward_weight);
    return calls;
}

} // namespace evener::runtime
