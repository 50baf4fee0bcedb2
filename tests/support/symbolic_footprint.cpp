// SPDX-License-Identifier: Apache-2.0
#include "support/symbolic_footprint.hpp"

#include "support/symbolic_memory.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::support {

using core::BucketId;
using core::Range;
using core::RankId;
using program::Access;
using program::Bucket;
using program::Buffer;
using program::BufferKind;
using program::Message;

namespace {

std::uint64_t label(std::uint64_t kind, std::int64_t a = 0, std::int64_t b = 0,
                    std::int64_t c = 0) {
    return combine(combine(combine(combine(7, kind), static_cast<std::uint64_t>(a)),
                           static_cast<std::uint64_t>(b)),
                   static_cast<std::uint64_t>(c));
}

} // namespace

std::pair<std::int64_t, std::int64_t> Footprints::weights_piece(Bucket const& bucket, RankId rank,
                                                                Range elements) {
    std::int64_t const width = core::bytes_of(bucket.type_of(rank));
    return {(elements.begin - bucket.weights_of(rank).begin) * width, elements.size() * width};
}

bool Footprints::has_mixed_types(Bucket const& bucket) {
    return std::adjacent_find(bucket.types.begin(), bucket.types.end(), std::not_equal_to<>{}) !=
           bucket.types.end();
}

/// Fills the footprint of one instruction.
struct Footprints::Add {
    Footprints& owner;
    RankId rank;
    core::InstructionId id;
    Footprint& print;

    program::Program const& program() const { return owner.set_.programs[rank.index()]; }
    program::Instruction const& instruction() const { return program().instructions[id.index()]; }
    Bucket const& bucket(BucketId b) const { return owner.set_.buckets[b.index()]; }

    void fault(std::string const& text) const {
        print.faults.push_back(
            fmt::format("rank {} instruction {}: {}", rank.value, id.value, text));
    }

    /// Bytes [from, from + bytes) of a buffer.
    Operand& memory(program::Use const& use, std::int64_t from, std::int64_t bytes, Role role,
                    std::uint64_t what) const {
        Buffer const& buffer = program().buffers[use.buffer.index()];
        bool const device = buffer.memory == program::Memory::device;
        if (from + bytes > buffer.bytes)
            fault(fmt::format("needs {} bytes of buffer {}", from + bytes, use.buffer.value));
        if (buffer.offset + from + bytes >
                (device ? program().arena_bytes : program().pinned_bytes) ||
            buffer.offset < 0)
            fault(fmt::format("reaches beyond its memory with buffer {}", use.buffer.value));
        return print.operands.emplace_back(Operand{device ? Space::device : Space::pinned,
                                                   buffer.offset + from, bytes, role, what, false,
                                                   false});
    }
    void scalar(std::int64_t address, Role role, std::uint64_t what) const {
        print.operands.push_back({Space::scalars, address, 1, role, what, false, false});
    }

    /// The use of a buffer of this kind, or null and a fault.
    program::Use const* find(BufferKind kind, BucketId wanted = {}) const {
        for (program::Use const& use : instruction().uses) {
            Buffer const& buffer = program().buffers[use.buffer.index()];
            if (buffer.kind == kind && (!wanted.valid() || buffer.bucket == wanted))
                return &use;
        }
        fault(fmt::format("has no {} buffer", program::name_of(kind)));
        return nullptr;
    }

    /// As the runtime looks it up: the last Receive before, the first Send behind.
    template <class Op>
    Message const* message_in(core::BufferId buffer, int step) const {
        auto const& list = program().instructions;
        for (std::int64_t i = id.value + step; i >= 0 && i < std::ssize(list); i += step) {
            auto const& other = list[static_cast<std::size_t>(i)];
            auto const* const op = std::get_if<Op>(&other.operation);
            if (op && std::any_of(other.uses.begin(), other.uses.end(),
                                  [&](program::Use const& use) { return use.buffer == buffer; }))
                return op;
        }
        fault(fmt::format("has no message for buffer {}", buffer.value));
        return nullptr;
    }

    model::ChunkLayout const& layout(program::Compute const& op) const {
        auto const [found, added] = owner.layouts_.try_emplace({op.chunk, op.sequences.size()});
        if (added)
            found->second = model::chunk_layout(owner.model_, op.layers, op.sequences.size(),
                                                owner.set_.plan.group_of(op.chunk).compute);
        return found->second;
    }

    std::int64_t inputs_bytes(program::Compute const& op) const {
        return model::boundary_bytes(owner.model_.config(), op.sequences.size(),
                                     owner.set_.plan.group_of(op.chunk).compute);
    }

    void compute(program::Compute const& op, std::uint64_t kind, model::ChunkPass pass,
                 std::vector<BucketId> const& clears) const {
        print.operation = combine(label(kind, op.chunk.value, op.microbatch.value, op.layers.end),
                                  label(op.layers.begin, op.sequences.begin, op.sequences.end));
        for (program::Use const& use : instruction().uses)
            compute_use(op, pass, clears, use);
        bool const losses = pass == model::ChunkPass::evaluate ||
                            pass == model::ChunkPass::backward ||
                            pass == model::ChunkPass::backward_input;
        if (losses && op.layers.end == owner.model_.layer_count())
            scalar(ScalarAddresses::loss(op.microbatch), Role::output, label(50));
        for (BucketId const b : clears)
            if (std::none_of(instruction().uses.begin(), instruction().uses.end(),
                             [&](program::Use const& use) {
                                 Buffer const& buffer = program().buffers[use.buffer.index()];
                                 return buffer.kind == BufferKind::gradients && buffer.bucket == b;
                             }))
                fault(fmt::format("clears bucket {} that it does not use", b.value));
    }

    void compute_use(program::Compute const& op, model::ChunkPass pass,
                     std::vector<BucketId> const& clears, program::Use const& use) const {
        Buffer const& buffer = program().buffers[use.buffer.index()];
        Role const role = use.access == Access::write  ? Role::output
                          : use.access == Access::read ? Role::input
                                                       : Role::change;
        auto const kind = static_cast<std::uint64_t>(buffer.kind);
        switch (buffer.kind) {
        case BufferKind::weights:
            memory(use, 0, buffer.bytes, role, label(kind, buffer.bucket.value));
            return;
        case BufferKind::gradients: {
            bool const first =
                std::find(clears.begin(), clears.end(), buffer.bucket) != clears.end();
            memory(use, 0, buffer.bytes, Role::gradient, label(kind, buffer.bucket.value)).clears =
                first;
            return;
        }
        case BufferKind::kept:
            memory(use, 0, layout(op).kept_bytes, role, label(kind));
            return;
        case BufferKind::kept_for_weights:
            memory(use, 0, layout(op).kept_for_weights_bytes, role, label(kind));
            return;
        case BufferKind::handover:
            memory(use, 0, buffer.bytes, role, label(kind, static_cast<int>(buffer.direction)))
                .saved = true;
            return;
        case BufferKind::received:
            if (Message const* const message = message_in<program::Receive>(use.buffer, -1))
                memory(use, 0, message->bytes, role,
                       label(kind, message->sequences.begin, message->sequences.end))
                    .saved = true;
            return;
        case BufferKind::inputs:
            memory(use, 0, inputs_bytes(op), role == Role::input ? Role::recalled : Role::saved, 0);
            return;
        case BufferKind::sending:
            if (Message const* const message = message_in<program::Send>(use.buffer, +1))
                memory(use, 0, message->bytes, role,
                       label(100, message->sequences.begin, message->sequences.end));
            return;
        case BufferKind::workspace:
            memory(use, 0, std::max(layout(op).of(pass).bytes, buffer.bytes), Role::scratch,
                   label(kind));
            return;
        default:
            fault(fmt::format("cannot use buffer {}", use.buffer.value));
        }
    }

    void operator()(program::Forward const& op) const {
        bool const drops = owner.set_.plan.chunks[op.chunk.index()].recompute;
        compute(op, 1,
                op.evaluate ? model::ChunkPass::evaluate
                : drops     ? model::ChunkPass::forward_dropping
                            : model::ChunkPass::forward,
                {});
    }
    void operator()(program::Recompute const& op) const {
        compute(op, 1, model::ChunkPass::forward, {});
    }
    void operator()(program::Fetch const& op) const { copy(op); }
    void operator()(program::Evict const& op) const { copy(op); }
    void operator()(program::Backward const& op) const {
        compute(op, 2, model::ChunkPass::backward, op.clears);
    }
    void operator()(program::BackwardInput const& op) const {
        compute(op, 3, model::ChunkPass::backward_input, op.clears);
    }
    void operator()(program::BackwardWeight const& op) const {
        compute(op, 4, model::ChunkPass::backward_weight, op.clears);
    }
    void operator()(program::Send const& op) const {
        if (auto const* use = find(BufferKind::sending))
            memory(*use, 0, op.bytes, Role::input, 0);
    }
    void operator()(program::Receive const& op) const {
        if (auto const* use = find(BufferKind::received))
            memory(*use, 0, op.bytes, Role::output, 0);
    }
    /// From the buffer that it reads to the other; new weights to where the shard's lie in the home.
    void copy(program::Copy const& op) const {
        auto const& uses = instruction().uses;
        auto const source = std::find_if(uses.begin(), uses.end(), [](program::Use const& use) {
            return use.access == Access::read;
        });
        if (uses.size() != 2 || source == uses.end())
            return fault("must read one buffer and write another");
        program::Use const& target = uses[source == uses.begin() ? 1 : 0];
        std::int64_t from = 0;
        if (op.kind == BufferKind::updated)
            from = weights_piece(bucket(op.bucket), rank, bucket(op.bucket).shard_of(rank)).first;
        memory(*source, 0, op.bytes, Role::input, 0);
        memory(target, from, op.bytes, Role::output, 0);
    }
    /// Reads the own piece from the weights, or from the masters where types differ; gets the
    /// others.
    void operator()(program::GatherParameters const& op) const {
        Bucket const& b = bucket(op.bucket);
        bool const mixed = has_mixed_types(b);
        Range const own = b.shard_of(rank);
        auto const* const weights = find(BufferKind::weights, op.bucket);
        if (!weights)
            return;
        if (mixed && !own.empty())
            if (auto const* shards = find(BufferKind::shards, op.bucket))
                memory(*shards, 0, program().buffers[shards->buffer.index()].bytes, Role::input, 1);
        for (program::Shard const& shard : b.shards) {
            if (!b.holds(rank) && shard.owner != rank)
                continue;
            auto const [from, bytes] = weights_piece(b, rank, shard.elements);
            bool const read = !mixed && shard.owner == rank;
            memory(*weights, from, bytes, read ? Role::input : Role::output,
                   read ? 1 : label(60, shard.owner.value));
        }
    }
    void operator()(program::ReduceGradients const& op) const {
        Bucket const& b = bucket(op.bucket);
        if (b.holds(rank))
            if (auto const* use = find(BufferKind::gradients, op.bucket))
                memory(*use, 0, b.elements * 4, Role::input, 1);
        if (!b.shard_of(rank).empty())
            if (auto const* use = find(BufferKind::reduced, op.bucket))
                memory(*use, 0, b.shard_of(rank).size() * 4, Role::output, 2);
    }
    /// The reduced gradient: where the bucket has one member the whole one, unless it was away.
    program::Use const* reduced(BucketId id_of_bucket) const {
        bool const whole = bucket(id_of_bucket).members.size() == 1 &&
                           std::any_of(instruction().uses.begin(), instruction().uses.end(),
                                       [&](program::Use const& use) {
                                           return program().buffers[use.buffer.index()].kind ==
                                                  BufferKind::gradients;
                                       });
        return find(whole ? BufferKind::gradients : BufferKind::reduced, id_of_bucket);
    }
    void operator()(program::MeasureGradients const& op) const {
        print.operation = label(5, op.bucket.value);
        if (auto const* use = reduced(op.bucket))
            memory(*use, 0, bucket(op.bucket).shard_of(rank).size() * 4, Role::input, 1);
        scalar(ScalarAddresses::squares(op.bucket), Role::output, 2);
    }
    void operator()(program::CountTokens const&) const {
        print.operation = label(6, rank.value);
        scalar(ScalarAddresses::tokens, Role::output, 1);
    }
    void operator()(program::ReduceScalars const&) const {
        program::Plan const& plan = owner.set_.plan;
        core::ChunkId const last{std::ssize(plan.chunks) - 1};
        std::int64_t const member = program::member_of(plan.group_of(last), rank);
        bool const train = owner.set_.kind == program::ProgramKind::train;
        bool head = false;
        for (std::int64_t m = 0; member >= 0 && m < plan.microbatch_count(); ++m)
            if (!program::sequences_of(plan, plan.group_of(last), static_cast<std::size_t>(member),
                                       core::MicrobatchId{m})
                     .empty()) {
                head = true;
                scalar(ScalarAddresses::loss(core::MicrobatchId{m}), Role::input, label(50, m));
            }
        if (train && head)
            scalar(ScalarAddresses::tokens, Role::input, label(51));
        for (Bucket const& b : owner.set_.buckets)
            if (train && !b.shard_of(rank).empty())
                scalar(ScalarAddresses::squares(b.id), Role::input, label(52, b.id.value));
        scalar(ScalarAddresses::sums, Role::output, label(53));
    }
    void operator()(program::UpdateParameters const& op) const {
        Bucket const& b = bucket(op.bucket);
        print.operation = label(8, op.bucket.value);
        if (auto const* use = reduced(op.bucket))
            memory(*use, 0, b.shard_of(rank).size() * 4, Role::input, 1);
        if (!owner.set_.plan.interleaved_updates)
            scalar(ScalarAddresses::sums, Role::input, 2);
        if (auto const* use = find(BufferKind::shards, op.bucket))
            memory(*use, 0, program().buffers[use->buffer.index()].bytes, Role::change, 3);
        auto const [from, bytes] = weights_piece(b, rank, b.shard_of(rank));
        for (program::Use const& use : instruction().uses)
            if (program().buffers[use.buffer.index()].kind == BufferKind::updated)
                return void(memory(use, 0, bytes, Role::output, 4));
        if (auto const* use = find(BufferKind::weights, op.bucket))
            memory(*use, from, bytes, Role::output, 4);
    }
};

Footprint Footprints::of(RankId rank, core::InstructionId id) {
    Footprint print;
    std::visit(Add{*this, rank, id, print},
               set_.programs[rank.index()].instructions[id.index()].operation);
    return print;
}

} // namespace evener::support
