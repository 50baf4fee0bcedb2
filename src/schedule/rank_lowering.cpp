// SPDX-License-Identifier: Apache-2.0
#include "schedule/rank_lowering.hpp"

#include "model/chunk_layout.hpp"
#include "schedule/program_builder.hpp"

#include <algorithm>
#include <set>
#include <tuple>

namespace evener::schedule {

using core::BucketId;
using core::BufferId;
using core::ChunkId;
using core::InstructionId;
using core::MicrobatchId;
using core::QueueId;
using core::Range;
using core::RankId;
using program::Access;
using program::Bucket;
using program::Buffer;
using program::BufferKind;
using program::Direction;
using program::Instruction;
using program::ProgramKind;
using program::QueueKind;
using program::Use;
using program::Work;
using program::WorkKind;

namespace {

/// A piece of a boundary that goes to or comes from another rank (or another chunk of this one).
struct Piece {
    RankId peer;
    Range sequences;
};

class RankLowering {
  public:
    RankLowering(LoweringInput const& input, RankId rank)
        : input_{input}, rank_{rank}, build_{rank} {
        compute_ = build_.queue({QueueKind::compute, RankId{}, Direction::forward});
        collective_ = build_.queue({QueueKind::collective, RankId{}, Direction::forward});
    }

    program::Program run() {
        bool const train = input_.options.kind == ProgramKind::train;
        add_bucket_buffers(train);
        workspace_ = build_.add_buffer({.kind = BufferKind::workspace});
        gather();
        for (Work const& work : input_.schedule.ranks[rank_.index()])
            lower(work);
        if (train)
            reduce();
        finish(train);
        build_.buffer(workspace_).bytes = core::round_up(workspace_bytes_, 64) +
                                          input_.options.device_workspace_bytes[rank_.index()];
        program::Program program = build_.take();
        assign_offsets(program);
        return program;
    }

  private:
    bool is_member(Bucket const& bucket) const {
        return std::binary_search(bucket.members.begin(), bucket.members.end(), rank_);
    }
    static bool is_shared(Bucket const& bucket) { return bucket.members.size() > 1; }
    static bool has_mixed_types(Bucket const& bucket) {
        return std::any_of(bucket.types.begin(), bucket.types.end(),
                           [&](core::DType type) { return type != bucket.types.front(); });
    }

    void add_bucket_buffers(bool train) {
        for (Bucket const& bucket : input_.buckets) {
            BucketBuffers& own = buckets_[bucket.id];
            if (!is_member(bucket))
                continue;
            own.weights = build_.add_buffer(
                {.kind = BufferKind::weights,
                 .persistent = true,
                 .bytes = bucket.weights_of(rank_).size() * core::bytes_of(bucket.type_of(rank_)),
                 .bucket = bucket.id});
            std::int64_t const owned = bucket.shard_of(rank_).size();
            if (owned > 0)
                own.shards = build_.add_buffer({.kind = BufferKind::shards,
                                                .persistent = true,
                                                .bytes = owned * 4 * (1 + input_.options.moments),
                                                .bucket = bucket.id});
            if (!train)
                continue;
            if (bucket.holds(rank_))
                own.gradients = build_.add_buffer({.kind = BufferKind::gradients,
                                                   .bytes = bucket.elements * 4,
                                                   .bucket = bucket.id});
            if (owned > 0)
                own.reduced = is_shared(bucket) ? build_.add_buffer({.kind = BufferKind::reduced,
                                                                     .bytes = owned * 4,
                                                                     .bucket = bucket.id})
                                                : own.gradients;
        }
    }

    void gather() {
        for (Bucket const& bucket : input_.buckets) {
            if (!is_shared(bucket) || !is_member(bucket))
                continue;
            BucketBuffers& own = buckets_[bucket.id];
            std::vector<Use> uses{{own.weights, Access::update}};
            if (has_mixed_types(bucket) && own.shards.valid())
                uses.push_back({own.shards, Access::read});
            own.gathered =
                build_.add(program::GatherParameters{bucket.id}, collective_, {}, std::move(uses));
        }
    }

    // --- one piece of work with its messages

    /// Sequences of the neighbour chunk's ranks that overlap `range`.
    std::vector<Piece> pieces(ChunkId neighbour, MicrobatchId microbatch, Range range) const {
        std::vector<Piece> result;
        program::Group const& group = input_.plan.group_of(neighbour);
        for (std::size_t member = 0; member < group.ranks.size(); ++member) {
            Range const part =
                core::overlap(range, program::sequences_of(input_.plan, group, member, microbatch));
            if (!part.empty())
                result.push_back({group.ranks[member], part});
        }
        return result;
    }

    std::int64_t message_bytes(ChunkId boundary, Range sequences) const {
        return model::boundary_bytes(input_.model.config(), sequences.size(),
                                     input_.plan.boundary_types[boundary.index()]);
    }

    program::Message message(Piece const& piece, Direction direction, ChunkId boundary,
                             MicrobatchId microbatch) const {
        return {piece.peer, direction,       boundary,
                microbatch, piece.sequences, message_bytes(boundary, piece.sequences)};
    }

    /// What a computation waits for and uses, collected before it is added.
    struct Pending {
        std::set<InstructionId> after;
        std::vector<Use> uses;
        std::vector<std::pair<program::Message, BufferId>> sends; ///< to add behind it
        std::vector<std::pair<Link, std::size_t>> freed;          ///< receive slots it frees
    };

    void take_input(Pending& pending, Direction direction, ChunkId boundary, ChunkId neighbour,
                    MicrobatchId microbatch, Range range) {
        for (Piece const& piece : pieces(neighbour, microbatch, range)) {
            if (piece.peer == rank_) {
                pending.uses.push_back(
                    {handover_.at({direction, boundary, microbatch}), Access::read, true});
                continue;
            }
            Link const link{piece.peer, rank_, direction};
            Incoming& incoming = incoming_[link];
            program::Message const op = message(piece, direction, boundary, microbatch);
            auto const slots = static_cast<std::size_t>(input_.receive_buffers.of(link));
            std::size_t const slot = incoming.count % slots;
            if (incoming.slots.size() <= slot)
                incoming.slots.push_back(
                    build_.add_buffer({.kind = BufferKind::received,
                                       .peer = piece.peer,
                                       .direction = direction,
                                       .slot = static_cast<std::int64_t>(slot)}));
            grow_link(incoming.slots, incoming.largest, op.bytes);
            std::set<InstructionId> after;
            if (incoming.count >= slots)
                after.insert(incoming.consumers[incoming.count - slots]);
            pending.after.insert(build_.add(
                program::Receive{op}, build_.queue({QueueKind::receive, piece.peer, direction}),
                after, {{incoming.slots[slot], Access::write}}));
            pending.uses.push_back({incoming.slots[slot], Access::read, true});
            pending.freed.push_back({link, incoming.count});
            ++incoming.count;
        }
    }

    void give_output(Pending& pending, Direction direction, ChunkId boundary, ChunkId neighbour,
                     MicrobatchId microbatch, Range range) {
        for (Piece const& piece : pieces(neighbour, microbatch, range)) {
            program::Message const op = message(piece, direction, boundary, microbatch);
            if (piece.peer == rank_) {
                BufferId const buffer = build_.add_buffer({.kind = BufferKind::handover,
                                                           .bytes = op.bytes,
                                                           .chunk = boundary,
                                                           .microbatch = microbatch,
                                                           .direction = direction});
                handover_[{direction, boundary, microbatch}] = buffer;
                pending.uses.push_back({buffer, Access::write});
                continue;
            }
            Link const link{rank_, piece.peer, direction};
            Outgoing& outgoing = outgoing_[link];
            auto const slots = static_cast<std::size_t>(input_.send_buffers.of(link));
            std::size_t const slot = outgoing.sends.size() % slots;
            if (outgoing.slots.size() <= slot)
                outgoing.slots.push_back(
                    build_.add_buffer({.kind = BufferKind::sending,
                                       .peer = piece.peer,
                                       .direction = direction,
                                       .slot = static_cast<std::int64_t>(slot)}));
            grow_link(outgoing.slots, outgoing.largest, op.bytes);
            if (outgoing.sends.size() >= slots)
                pending.after.insert(outgoing.sends[outgoing.sends.size() - slots]);
            pending.uses.push_back({outgoing.slots[slot], Access::write});
            pending.sends.push_back({op, outgoing.slots[slot]});
        }
    }

    /// All buffers of a link are as large as its largest message.
    void grow_link(std::vector<BufferId> const& buffers, std::int64_t& largest,
                   std::int64_t bytes) {
        largest = std::max(largest, bytes);
        for (BufferId const buffer : buffers)
            build_.buffer(buffer).bytes = largest;
    }

    void use_weights(Pending& pending, ChunkId chunk) {
        for (Bucket const& bucket : input_.buckets) {
            if (std::find(bucket.chunks.begin(), bucket.chunks.end(), chunk) == bucket.chunks.end())
                continue;
            BucketBuffers& own = buckets_[bucket.id];
            pending.uses.push_back({own.weights, Access::read});
            if (own.gathered.valid() && !own.gather_awaited)
                pending.after.insert(own.gathered);
            own.gather_awaited = true;
        }
    }

    /// Buckets into whose gradient this work accumulates.
    bool accumulates(Bucket const& bucket, Work const& work) const {
        Range const layers = input_.plan.chunks[work.chunk.index()].layers;
        for (program::BucketParameter const& entry : bucket.parameters)
            for (core::LayerId const layer : input_.model.layers_of(entry.parameter)) {
                if (layer.value < layers.begin || layer.value >= layers.end)
                    continue;
                bool const early = input_.model.layer(layer).gradients_in_backward_input();
                if (work.kind == WorkKind::backward ||
                    (work.kind == WorkKind::backward_input) == early)
                    return true;
            }
        return false;
    }

    std::vector<BucketId> use_gradients(Pending& pending, Work const& work) {
        std::vector<BucketId> clears;
        for (Bucket const& bucket : input_.buckets) {
            if (!bucket.holds(rank_) || !accumulates(bucket, work))
                continue;
            BucketBuffers& own = buckets_[bucket.id];
            bool const first = !own.last_gradient.valid();
            if (first)
                clears.push_back(bucket.id);
            pending.uses.push_back({own.gradients, first ? Access::write : Access::update});
            own.last_gradient = build_.next();
        }
        return clears;
    }

    void use_workspace(Pending& pending, model::ChunkLayout const& layout, model::ChunkPass pass) {
        pending.uses.push_back({workspace_, Access::write, true});
        workspace_bytes_ = std::max(workspace_bytes_, layout.of(pass).bytes);
    }

    /// Adds the computation, then its sends.
    void emit(Pending&& pending, program::Operation operation) {
        InstructionId const id = build_.add(std::move(operation), compute_,
                                            std::move(pending.after), std::move(pending.uses));
        for (auto const& [link, index] : pending.freed) {
            auto& consumers = incoming_[link].consumers;
            if (consumers.size() <= index)
                consumers.resize(index + 1);
            consumers[index] = id;
        }
        for (auto const& [op, buffer] : pending.sends)
            outgoing_[{rank_, op.peer, op.direction}].sends.push_back(build_.add(
                program::Send{op}, build_.queue({QueueKind::send, op.peer, op.direction}), {id},
                {{buffer, Access::read, true}}));
        last_compute_ = id;
    }

    void lower(Work const& work) {
        program::Group const& group = input_.plan.group_of(work.chunk);
        auto const member = static_cast<std::size_t>(program::member_of(group, rank_));
        Range const sequences = program::sequences_of(input_.plan, group, member, work.microbatch);
        if (sequences.empty())
            return;
        program::Compute const compute{work.chunk, input_.plan.chunks[work.chunk.index()].layers,
                                       work.microbatch, sequences};
        if (work.kind == WorkKind::forward)
            lower_forward(compute, layout_of(compute, group.compute));
        else
            lower_backward(work, compute, layout_of(compute, group.compute));
    }

    model::ChunkLayout const& layout_of(program::Compute const& compute, core::DType type) {
        auto const [found, added] = layouts_.try_emplace({compute.chunk, compute.sequences.size()});
        if (added)
            found->second =
                model::chunk_layout(input_.model, compute.layers, compute.sequences.size(), type);
        return found->second;
    }

    void lower_forward(program::Compute const& compute, model::ChunkLayout const& layout) {
        bool const evaluate = input_.options.kind == ProgramKind::evaluate;
        ChunkId const chunk = compute.chunk;
        Pending pending;
        if (layout.has_input)
            take_input(pending, Direction::forward, ChunkId{chunk.value - 1},
                       ChunkId{chunk.value - 1}, compute.microbatch, compute.sequences);
        use_weights(pending, chunk);
        if (!evaluate && layout.kept_bytes > 0) {
            BufferId const kept = build_.add_buffer({.kind = BufferKind::kept,
                                                     .bytes = layout.kept_bytes,
                                                     .chunk = chunk,
                                                     .microbatch = compute.microbatch});
            kept_[{chunk, compute.microbatch}] = kept;
            pending.uses.push_back({kept, Access::write});
        }
        use_workspace(pending, layout,
                      evaluate ? model::ChunkPass::evaluate : model::ChunkPass::forward);
        if (layout.has_output)
            give_output(pending, Direction::forward, chunk, ChunkId{chunk.value + 1},
                        compute.microbatch, compute.sequences);
        emit(std::move(pending), program::Forward{compute, evaluate});
    }

    void lower_backward(Work const& work, program::Compute const& compute,
                        model::ChunkLayout const& layout) {
        ChunkId const chunk = compute.chunk;
        bool const fused = work.kind == WorkKind::backward;
        bool const weights_only = work.kind == WorkKind::backward_weight;
        Pending pending;
        if (!weights_only && layout.has_output)
            take_input(pending, Direction::backward, chunk, ChunkId{chunk.value + 1},
                       compute.microbatch, compute.sequences);
        use_weights(pending, chunk);
        if (layout.kept_bytes > 0)
            pending.uses.push_back(
                {kept_.at({chunk, compute.microbatch}), Access::read, fused || weights_only});
        if (!fused && layout.kept_for_weights_bytes > 0) {
            auto& buffer = kept_for_weights_[{chunk, compute.microbatch}];
            if (!weights_only)
                buffer = build_.add_buffer({.kind = BufferKind::kept_for_weights,
                                            .bytes = layout.kept_for_weights_bytes,
                                            .chunk = chunk,
                                            .microbatch = compute.microbatch});
            pending.uses.push_back(
                {buffer, weights_only ? Access::read : Access::write, weights_only});
        }
        use_workspace(pending, layout,
                      fused          ? model::ChunkPass::backward
                      : weights_only ? model::ChunkPass::backward_weight
                                     : model::ChunkPass::backward_input);
        if (!weights_only && layout.has_input)
            give_output(pending, Direction::backward, ChunkId{chunk.value - 1},
                        ChunkId{chunk.value - 1}, compute.microbatch, compute.sequences);
        std::vector<BucketId> clears = use_gradients(pending, work);
        if (fused)
            emit(std::move(pending), program::Backward{compute, std::move(clears)});
        else if (weights_only)
            emit(std::move(pending), program::BackwardWeight{compute, std::move(clears)});
        else
            emit(std::move(pending), program::BackwardInput{compute, std::move(clears)});
    }

    // --- the end of the step

    /// Chunks from last to first, then shared buckets: the same order on every rank.
    std::vector<Bucket const*> reduction_order() const {
        std::vector<Bucket const*> order;
        for (Bucket const& bucket : input_.buckets)
            if (is_member(bucket))
                order.push_back(&bucket);
        std::stable_sort(order.begin(), order.end(), [](Bucket const* a, Bucket const* b) {
            return std::make_tuple(a->chunks.size() > 1, -a->chunks.front().value) <
                   std::make_tuple(b->chunks.size() > 1, -b->chunks.front().value);
        });
        return order;
    }

    void reduce() {
        for (Bucket const* bucket : reduction_order()) {
            if (!is_shared(*bucket))
                continue;
            BucketBuffers& own = buckets_[bucket->id];
            std::vector<Use> uses;
            std::set<InstructionId> after;
            if (own.gradients.valid()) {
                uses.push_back({own.gradients, Access::read, true});
                after.insert(own.last_gradient);
            }
            if (own.reduced.valid())
                uses.push_back({own.reduced, Access::write});
            own.reduction = build_.add(program::ReduceGradients{bucket->id}, collective_, after,
                                       std::move(uses));
        }
    }

    bool has_head() const {
        for (Work const& work : input_.schedule.ranks[rank_.index()])
            if (input_.plan.chunks[work.chunk.index()].layers.end == input_.model.layer_count())
                return true;
        return false;
    }

    void finish(bool train) {
        std::vector<Bucket const*> const order = reduction_order();
        if (train && has_head())
            last_compute_ = build_.add(program::CountTokens{}, compute_, {}, {});
        if (train)
            for (Bucket const* bucket : order) {
                BucketBuffers const& own = buckets_[bucket->id];
                if (!own.reduced.valid())
                    continue;
                std::set<InstructionId> after;
                if (own.reduction.valid())
                    after.insert(own.reduction);
                last_compute_ = build_.add(program::MeasureGradients{bucket->id}, compute_, after,
                                           {{own.reduced, Access::read}});
            }
        std::set<InstructionId> after;
        if (last_compute_.valid())
            after.insert(last_compute_);
        InstructionId const scalars = build_.add(program::ReduceScalars{}, collective_, after, {});
        if (!train)
            return;
        bool first = true;
        for (Bucket const* bucket : order) {
            BucketBuffers const& own = buckets_[bucket->id];
            if (!own.reduced.valid())
                continue;
            build_.add(program::UpdateParameters{bucket->id}, compute_,
                       first ? std::set<InstructionId>{scalars} : std::set<InstructionId>{},
                       {{own.reduced, Access::read, true},
                        {own.shards, Access::update},
                        {own.weights, Access::update}});
            first = false;
        }
    }

    struct BucketBuffers {
        BufferId weights, shards, gradients, reduced;
        InstructionId gathered, last_gradient, reduction;
        bool gather_awaited = false;
    };
    struct Incoming {
        std::vector<BufferId> slots;
        std::vector<InstructionId> consumers; ///< of each message so far
        std::size_t count = 0;
        std::int64_t largest = 0;
    };
    struct Outgoing {
        std::vector<BufferId> slots;
        std::vector<InstructionId> sends; ///< all so far
        std::int64_t largest = 0;
    };
    using ChunkMicrobatch = std::pair<ChunkId, MicrobatchId>;

    LoweringInput const& input_;
    RankId rank_;
    ProgramBuilder build_;
    QueueId compute_, collective_;
    BufferId workspace_;
    std::int64_t workspace_bytes_ = 0;
    InstructionId last_compute_;
    std::map<BucketId, BucketBuffers> buckets_;
    std::map<Link, Incoming> incoming_;
    std::map<Link, Outgoing> outgoing_;
    std::map<ChunkMicrobatch, BufferId> kept_;
    std::map<ChunkMicrobatch, BufferId> kept_for_weights_;
    std::map<std::tuple<Direction, ChunkId, MicrobatchId>, BufferId> handover_;
    std::map<std::pair<ChunkId, std::int64_t>, model::ChunkLayout> layouts_;
};

} // namespace

program::Program lower_rank(LoweringInput const& input, RankId rank) {
    return RankLowering{input, rank}.run();
}

} // namespace evener::schedule
