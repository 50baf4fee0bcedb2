// SPDX-License-Identifier: Apache-2.0
#include "program/program.hpp"

#include "program/schedule.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace evener::program {

namespace {

std::string describe(Compute const& op, std::string_view name) {
    return fmt::format("{} chunk={} layers={}:{} microbatch={} sequences={}:{}", name,
                       op.chunk.value, op.layers.begin, op.layers.end, op.microbatch.value,
                       op.sequences.begin, op.sequences.end);
}

std::string describe_clears(std::vector<core::BucketId> const& clears) {
    std::string text;
    for (core::BucketId const bucket : clears)
        text += fmt::format(" clears={}", bucket.value);
    return text;
}

std::string describe(Message const& op, std::string_view name) {
    return fmt::format("{} peer={} {} chunk={} microbatch={} sequences={}:{} bytes={}", name,
                       op.peer.value, name_of(op.direction), op.chunk.value, op.microbatch.value,
                       op.sequences.begin, op.sequences.end, op.bytes);
}

std::string describe(Copy const& op, std::string_view name) {
    std::string text = fmt::format("{} {}", name, name_of(op.kind));
    if (op.bucket.valid())
        text += fmt::format(" bucket={}", op.bucket.value);
    if (op.chunk.valid())
        text += fmt::format(" chunk={} microbatch={}", op.chunk.value, op.microbatch.value);
    if (op.kind == BufferKind::weights)
        text += fmt::format(" slot={}", op.slot);
    return text + fmt::format(" bytes={}", op.bytes);
}

struct Describe {
    std::string operator()(Forward const& op) const {
        return describe(op, op.evaluate ? "evaluate" : "forward");
    }
    std::string operator()(Recompute const& op) const { return describe(op, "recompute"); }
    std::string operator()(Backward const& op) const {
        return describe(op, "backward") + describe_clears(op.clears);
    }
    std::string operator()(BackwardInput const& op) const {
        return describe(op, "backward_input") + describe_clears(op.clears);
    }
    std::string operator()(BackwardWeight const& op) const {
        return describe(op, "backward_weight") + describe_clears(op.clears);
    }
    std::string operator()(Send const& op) const { return describe(op, "send"); }
    std::string operator()(Receive const& op) const { return describe(op, "receive"); }
    std::string operator()(GatherParameters const& op) const {
        return fmt::format("gather_parameters bucket={}", op.bucket.value);
    }
    std::string operator()(ReduceGradients const& op) const {
        return fmt::format("reduce_gradients bucket={}", op.bucket.value);
    }
    std::string operator()(MeasureGradients const& op) const {
        return fmt::format("measure_gradients bucket={}", op.bucket.value);
    }
    std::string operator()(CountTokens const&) const { return "count_tokens"; }
    std::string operator()(ReduceScalars const&) const { return "reduce_scalars"; }
    std::string operator()(UpdateParameters const& op) const {
        return fmt::format("update_parameters bucket={}", op.bucket.value);
    }
    std::string operator()(Fetch const& op) const { return describe(op, "fetch"); }
    std::string operator()(Evict const& op) const { return describe(op, "evict"); }
};

std::string describe(Buffer const& buffer) {
    std::string text =
        fmt::format("{} offset={} bytes={}", name_of(buffer.kind), buffer.offset, buffer.bytes);
    if (buffer.memory != Memory::device)
        text += fmt::format(" {}", name_of(buffer.memory));
    if (buffer.persistent)
        text += " persistent";
    if (buffer.chunk.valid())
        text += fmt::format(" chunk={}", buffer.chunk.value);
    if (buffer.microbatch.valid())
        text += fmt::format(" microbatch={}", buffer.microbatch.value);
    if (buffer.bucket.valid())
        text += fmt::format(" bucket={}", buffer.bucket.value);
    if (buffer.peer.valid())
        text += fmt::format(" peer={} {} slot={}", buffer.peer.value, name_of(buffer.direction),
                            buffer.slot);
    else if (buffer.slot != 0)
        text += fmt::format(" slot={}", buffer.slot);
    return text;
}

std::string describe(Queue const& queue) {
    if (!queue.peer.valid())
        return std::string{name_of(queue.kind)};
    return fmt::format("{} peer={} {}", name_of(queue.kind), queue.peer.value,
                       name_of(queue.direction));
}

} // namespace

std::string to_string(Work const& work) {
    static constexpr char const* letters[] = {"F", "BW", "B", "W"};
    return fmt::format("{}{}.{}", letters[static_cast<std::size_t>(work.kind)], work.chunk.value,
                       work.microbatch.value);
}

std::string_view name_of(BufferKind kind) {
    static constexpr std::string_view names[buffer_kind_count] = {
        "weights",           "gradients",         "shards",
        "reduced gradients", "kept for backward", "kept for weight gradients",
        "received",          "sending",           "handover",
        "workspace",         "chunk inputs",      "updated weights"};
    return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Memory memory) {
    return memory == Memory::device ? "device" : "pinned";
}

std::string_view name_of(QueueKind kind) {
    static constexpr std::string_view names[] = {"compute",    "send",    "receive",
                                                 "collective", "copy_in", "copy_out"};
    return names[static_cast<std::size_t>(kind)];
}

std::string_view name_of(Direction direction) {
    return direction == Direction::forward ? "forward" : "backward";
}

std::int64_t message_tag(Message const& message, std::int64_t microbatch_count) {
    return message.chunk.value * microbatch_count + message.microbatch.value;
}

MemoryTable memory_table(Program const& program, Memory memory) {
    // What persists of a kind lies in one region and the rest in another, so the extents of the two
    // are its row and the rows add up.
    MemoryTable table;
    table.total_bytes = memory == Memory::device ? program.arena_bytes : program.pinned_bytes;
    std::int64_t begins[2 * buffer_kind_count];
    std::fill(std::begin(begins), std::end(begins), table.total_bytes);
    std::int64_t ends[2 * buffer_kind_count] = {};
    for (Buffer const& buffer : program.buffers) {
        if (buffer.memory != memory)
            continue;
        std::size_t const region =
            2 * static_cast<std::size_t>(buffer.kind) + (buffer.persistent ? 1 : 0);
        begins[region] = std::min(begins[region], buffer.offset);
        ends[region] = std::max(ends[region], core::round_up(buffer.offset + buffer.bytes, 64));
    }
    for (int region = 0; region < 2 * buffer_kind_count; ++region)
        table.bytes[region / 2] += std::max<std::int64_t>(0, ends[region] - begins[region]);
    return table;
}

std::string to_string(Operation const& operation) {
    return std::visit(Describe{}, operation);
}

std::string to_string(Instruction const& instruction) {
    std::string text = to_string(instruction.operation);
    text += fmt::format(" queue={}", instruction.queue.value);
    if (!instruction.after.empty()) {
        std::vector<std::int32_t> after;
        for (core::InstructionId const id : instruction.after)
            after.push_back(id.value);
        text += fmt::format(" after={}", fmt::join(after, ","));
    }
    static constexpr char const* access[] = {"writes", "reads", "updates"};
    for (Use const& use : instruction.uses)
        text += fmt::format(" {}={}{}", access[static_cast<std::size_t>(use.access)],
                            use.buffer.value, use.last ? "!" : "");
    return text;
}

std::string to_string(Program const& program) {
    std::string text =
        fmt::format("program rank={} arena_bytes={}", program.rank.value, program.arena_bytes);
    if (program.pinned_bytes > 0)
        text += fmt::format(" pinned_bytes={}", program.pinned_bytes);
    text += '\n';
    for (std::size_t i = 0; i < program.queues.size(); ++i)
        text += fmt::format("queue {} {}\n", i, describe(program.queues[i]));
    for (std::size_t i = 0; i < program.buffers.size(); ++i)
        text += fmt::format("buffer {} {}\n", i, describe(program.buffers[i]));
    for (std::size_t i = 0; i < program.instructions.size(); ++i)
        text += fmt::format("{} {}\n", i, to_string(program.instructions[i]));
    return text;
}

} // namespace evener::program
