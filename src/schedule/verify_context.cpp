// SPDX-License-Identifier: Apache-2.0
#include "schedule/verify_context.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::schedule {

using program::Operation;

namespace {

struct Name {
    core::RankId rank;

    std::string compute(program::Compute const& op, std::string_view kind) const {
        return fmt::format("{} chunk {} microbatch {} on rank {}", kind, op.chunk.value,
                           op.microbatch.value, rank.value);
    }
    std::string message(program::Message const& op, std::string_view kind,
                        std::string_view side) const {
        return fmt::format("{} {} chunk {} microbatch {} {} rank {} on rank {}", kind,
                           program::name_of(op.direction), op.chunk.value, op.microbatch.value,
                           side, op.peer.value, rank.value);
    }
    std::string bucket(core::BucketId id, std::string_view kind) const {
        return fmt::format("{} bucket {} on rank {}", kind, id.value, rank.value);
    }
    std::string operator()(program::Forward const& op) const { return compute(op, "forward"); }
    std::string operator()(program::Recompute const& op) const { return compute(op, "recompute"); }
    std::string operator()(program::Backward const& op) const { return compute(op, "backward"); }
    std::string operator()(program::BackwardInput const& op) const {
        return compute(op, "backward_input");
    }
    std::string operator()(program::BackwardWeight const& op) const {
        return compute(op, "backward_weight");
    }
    std::string operator()(program::Send const& op) const { return message(op, "send", "to"); }
    std::string operator()(program::Receive const& op) const {
        return message(op, "receive", "from");
    }
    std::string operator()(program::GatherParameters const& op) const {
        return bucket(op.bucket, "gather_parameters");
    }
    std::string operator()(program::ReduceGradients const& op) const {
        return bucket(op.bucket, "reduce_gradients");
    }
    std::string operator()(program::MeasureGradients const& op) const {
        return bucket(op.bucket, "measure_gradients");
    }
    std::string operator()(program::UpdateParameters const& op) const {
        return bucket(op.bucket, "update_parameters");
    }
    std::string copy(program::Copy const& op, std::string_view verb) const {
        std::string text = fmt::format("{} {}", verb, program::name_of(op.kind));
        if (op.bucket.valid())
            text += fmt::format(" bucket {}", op.bucket.value);
        if (op.chunk.valid())
            text += fmt::format(" chunk {} microbatch {}", op.chunk.value, op.microbatch.value);
        if (op.kind == program::BufferKind::weights)
            text += fmt::format(" residence {}", op.slot);
        return text + fmt::format(" on rank {}", rank.value);
    }
    std::string operator()(program::Fetch const& op) const { return copy(op, "fetch"); }
    std::string operator()(program::Evict const& op) const { return copy(op, "evict"); }
    std::string operator()(program::CountTokens const&) const {
        return fmt::format("count_tokens on rank {}", rank.value);
    }
    std::string operator()(program::ReduceScalars const&) const {
        return fmt::format("reduce_scalars on rank {}", rank.value);
    }
};

} // namespace

std::string name_of(core::RankId rank, Operation const& operation) {
    return std::visit(Name{rank}, operation);
}

program::Compute const* compute_of(Operation const& operation) {
    return std::visit(
        [](auto const& op) -> program::Compute const* {
            if constexpr (std::is_base_of_v<program::Compute, std::decay_t<decltype(op)>>)
                return &op;
            else
                return nullptr;
        },
        operation);
}

program::Message const* message_of(Operation const& operation) {
    return std::visit(
        [](auto const& op) -> program::Message const* {
            if constexpr (std::is_base_of_v<program::Message, std::decay_t<decltype(op)>>)
                return &op;
            else
                return nullptr;
        },
        operation);
}

program::Copy const* copy_of(Operation const& operation) {
    return std::visit(
        [](auto const& op) -> program::Copy const* {
            if constexpr (std::is_base_of_v<program::Copy, std::decay_t<decltype(op)>>)
                return &op;
            else
                return nullptr;
        },
        operation);
}

std::vector<core::BucketId> const& clears_of(Operation const& operation) {
    static std::vector<core::BucketId> const none;
    return std::visit(
        [](auto const& op) -> std::vector<core::BucketId> const& {
            if constexpr (requires { op.clears; })
                return op.clears;
            else
                return none;
        },
        operation);
}

core::BucketId bucket_of(Operation const& operation) {
    return std::visit(
        [](auto const& op) -> core::BucketId {
            if constexpr (requires { op.bucket; })
                return op.bucket;
            else
                return {};
        },
        operation);
}

std::string Context::name(core::RankId rank, core::BufferId id) const {
    program::Buffer const& buffer = program(rank).buffers[id.index()];
    std::string text =
        fmt::format("{}{} buffer {}", buffer.memory == program::Memory::pinned ? "pinned " : "",
                    program::name_of(buffer.kind), id.value);
    if (buffer.chunk.valid())
        text +=
            fmt::format(" of chunk {} microbatch {}", buffer.chunk.value, buffer.microbatch.value);
    if (buffer.bucket.valid())
        text += fmt::format(" of bucket {}", buffer.bucket.value);
    if (buffer.peer.valid())
        text +=
            fmt::format(" of rank {} {}", buffer.peer.value, program::name_of(buffer.direction));
    return text;
}

void Context::report(Place place, std::string const& message) {
    problems.push_back(
        {place.rank, place.instruction,
         fmt::format("{} (instruction {}): {}", name(place), place.instruction.value, message)});
}

void Context::report(core::RankId rank, std::string const& message) {
    problems.push_back({rank, {}, message});
}

void Context::report(core::RankId rank, core::BufferId buffer, std::string const& message) {
    std::string const text = fmt::format("{} {}", name(rank, buffer), message);
    auto const& instructions = program(rank).instructions;
    for (std::size_t i = 0; i < instructions.size(); ++i)
        for (program::Use const& use : instructions[i].uses)
            if (use.buffer == buffer)
                return report(Place{rank, core::InstructionId{static_cast<std::int64_t>(i)}}, text);
    report(rank, fmt::format("rank {}: {}", rank.value, text));
}

void Context::prepare() {
    for_each_instruction(set, [&](Place place, program::Instruction const& instruction) {
        if (auto const* op = std::get_if<program::Backward>(&instruction.operation))
            fused_.insert({place.rank, op->chunk, op->microbatch});
        if (auto const* op = copy_of(instruction.operation))
            if (op->chunk.valid())
                copied_.insert({place.rank, op->chunk, op->microbatch});
    });
    for (program::Program const& program : set.programs)
        offloads_.push_back(program::offload_of(plan(), program.rank));
    std::int64_t const microbatches = plan().microbatch_count();
    for (program::Chunk const& chunk : plan().chunks) {
        program::Group const& group = plan().groups[chunk.group.index()];
        auto& rows = parts_.emplace_back(static_cast<std::size_t>(microbatches));
        for (std::int64_t m = 0; m < microbatches; ++m)
            for (std::size_t member = 0; member < group.ranks.size(); ++member) {
                core::Range const range =
                    program::sequences_of(plan(), group, member, core::MicrobatchId{m});
                if (!range.empty())
                    rows[static_cast<std::size_t>(m)].push_back({group.ranks[member], range});
            }
    }
}

core::Range Context::sequences(core::RankId rank, core::ChunkId chunk,
                               core::MicrobatchId microbatch) const {
    for (Part const& part : parts(chunk, microbatch))
        if (part.rank == rank)
            return part.sequences;
    return {};
}

std::vector<Part> Context::overlaps(core::ChunkId chunk, core::MicrobatchId microbatch,
                                    core::Range range) const {
    std::vector<Part> result;
    for (Part const& part : parts(chunk, microbatch))
        if (core::Range const both = core::overlap(part.sequences, range); !both.empty())
            result.push_back({part.rank, both});
    return result;
}

model::ChunkLayout const& Context::layout(core::ChunkId chunk, std::int64_t sequences) {
    auto const [found, added] = layouts_.try_emplace({chunk, sequences});
    if (added)
        found->second = model::chunk_layout(model, plan().chunks[chunk.index()].layers, sequences,
                                            plan().group_of(chunk).compute);
    return found->second;
}

Context::Saved Context::saved_by_forward(core::ChunkId chunk, std::int64_t sequences) {
    model::ChunkLayout const& own = layout(chunk, sequences);
    if (!recomputes(chunk))
        return {program::BufferKind::kept, own.kept_bytes};
    std::int64_t const input =
        model::boundary_bytes(model.config(), sequences, plan().group_of(chunk).compute);
    return {program::BufferKind::inputs, own.has_input ? input : 0};
}

std::int64_t Context::message_bytes(core::ChunkId boundary, core::Range sequences) const {
    return model::boundary_bytes(model.config(), sequences.size(),
                                 plan().boundary_types[boundary.index()]);
}

bool Context::is_member(program::Bucket const& bucket, core::RankId rank) const {
    return std::binary_search(bucket.members.begin(), bucket.members.end(), rank);
}

bool Context::accumulates(Operation const& operation, program::Bucket const& bucket) const {
    program::Compute const* const compute = compute_of(operation);
    if (!compute || !is_backward(operation) ||
        std::find(bucket.chunks.begin(), bucket.chunks.end(), compute->chunk) ==
            bucket.chunks.end())
        return false;
    for (program::BucketParameter const& entry : bucket.parameters)
        for (core::LayerId const layer : model.layers_of(entry.parameter)) {
            if (layer.value < compute->layers.begin || layer.value >= compute->layers.end)
                continue;
            bool const early = model.layer(layer).gradients_in_backward_input();
            if (is<program::Backward>(operation) || early == is<program::BackwardInput>(operation))
                return true;
        }
    return false;
}

} // namespace evener::schedule
