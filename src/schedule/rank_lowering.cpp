// SPDX-License-Identifier: Apache-2.0
#include "schedule/rank_lowering.hpp"

#include "schedule/lowering_parts.hpp"

#include <algorithm>

namespace evener::schedule {

using core::BufferId;
using core::ChunkId;
using core::InstructionId;
using core::MicrobatchId;
using core::RankId;
using model::ChunkPass;
using program::Access;
using program::BufferKind;
using program::Direction;
using program::ProgramKind;
using program::QueueKind;
using program::Work;
using program::WorkKind;

namespace {

/// The rank's work, without microbatches of which it has no sequences.
std::vector<Work> items_of(LoweringInput const& input, RankId rank) {
    std::vector<Work> items;
    for (Work const& work : input.schedule.ranks[rank.index()]) {
        program::Group const& group = input.plan.group_of(work.chunk);
        auto const member = static_cast<std::size_t>(program::member_of(group, rank));
        if (!program::sequences_of(input.plan, group, member, work.microbatch).empty())
            items.push_back(work);
    }
    return items;
}

/// Inputs to recompute from are small: they come early enough for the fetch of a shard's state, which
/// takes as long as some computations, to stand between them in the copy queue.
constexpr std::size_t inputs_ahead = 4;

class RankLowering {
  public:
    RankLowering(LoweringInput const& input, RankId rank)
        : input_{input}, rank_{rank}, items_{items_of(input, rank)}, build_{rank},
          draft_{input_, rank_, build_, items_}, compute_{build_.queue(
                                                     {QueueKind::compute, RankId{}, {}})},
          collective_{build_.queue({QueueKind::collective, RankId{}, {}})}, links_{draft_},
          buckets_{draft_, compute_, collective_} {
        find_backwards();
    }

    program::Program run() {
        workspace_ = build_.add_buffer({.kind = BufferKind::workspace});
        buckets_.gather();
        for (std::size_t i = 0; i < items_.size(); ++i) {
            buckets_.before_item(i);
            fetch_kept(i + 1);
            for (std::size_t j = i + 2; j <= i + inputs_ahead && j < items_.size(); ++j)
                if (draft_.chunk(items_[j].chunk).recompute)
                    fetch_kept(j);
            lower(i);
            buckets_.after_item(i);
            deferred_.run(i);
        }
        deferred_.run_all();
        buckets_.after_items();
        finish();
        build_.buffer(workspace_).bytes = core::round_up(workspace_bytes_, 64) +
                                          input_.options.device_workspace_bytes[rank_.index()];
        program::Program program = build_.take();
        assign_offsets(program);
        return program;
    }

  private:
    using ChunkMicrobatch = std::pair<ChunkId, MicrobatchId>;

    /// What is kept from a Forward (or Recompute) to the Backward of the same microbatch.
    struct Kept {
        BufferId inputs; ///< chunk inputs to recompute from
        BufferId kept, kept_for_weights;
        BufferId home;             ///< of inputs or kept, while they are not on the device
        InstructionId left;        ///< the Evict
        InstructionId arrived;     ///< the Fetch
        std::size_t backward = 0;  ///< the item that needs it first
        bool has_backward = false; ///< in this program
    };

    static ChunkMicrobatch key(Work const& work) { return {work.chunk, work.microbatch}; }

    bool offloads_activations() const {
        return draft_.train() && program::offload_of(input_.plan, rank_).activations;
    }

    void find_backwards() {
        for (std::size_t i = items_.size(); i-- > 0;) {
            if (items_[i].kind == WorkKind::forward)
                continue;
            kept_[key(items_[i])].backward = i;
            kept_[key(items_[i])].has_backward = true;
        }
    }

    program::Compute compute_of(Work const& work) const {
        program::Group const& group = input_.plan.group_of(work.chunk);
        auto const member = static_cast<std::size_t>(program::member_of(group, rank_));
        return {work.chunk, draft_.chunk(work.chunk).layers, work.microbatch,
                program::sequences_of(input_.plan, group, member, work.microbatch)};
    }

    model::ChunkLayout const& layout_of(program::Compute const& compute) {
        auto const [found, added] = layouts_.try_emplace({compute.chunk, compute.sequences.size()});
        if (added)
            found->second =
                model::chunk_layout(input_.model, compute.layers, compute.sequences.size(),
                                    input_.plan.group_of(compute.chunk).compute);
        return found->second;
    }

    void lower(std::size_t item) {
        Work const& work = items_[item];
        program::Compute const compute = compute_of(work);
        model::ChunkLayout const& layout = layout_of(compute);
        if (work.kind == WorkKind::forward) {
            lower_forward(item, compute, layout);
            return;
        }
        if (draft_.chunk(work.chunk).recompute && work.kind != WorkKind::backward_weight &&
            layout.kept_bytes > 0)
            lower_recompute(item, compute, layout);
        lower_backward(item, compute, layout);
    }

    void use_workspace(Pending& pending, model::ChunkLayout const& layout, ChunkPass pass) {
        pending.uses.push_back({workspace_, Access::write, true});
        workspace_bytes_ = std::max(workspace_bytes_, layout.of(pass).bytes);
    }

    /// Adds the computation, then its sends.
    void emit(Pending&& pending, program::Operation operation) {
        InstructionId const id =
            build_.add(std::move(operation), compute_, pending.after, pending.uses);
        links_.follow(pending, id);
        last_compute_ = id;
    }

    BufferId add_activations(BufferKind kind, program::Compute const& compute, std::int64_t bytes) {
        return build_.add_buffer({.kind = kind,
                                  .bytes = bytes,
                                  .chunk = compute.chunk,
                                  .microbatch = compute.microbatch});
    }

    void lower_forward(std::size_t item, program::Compute const& compute,
                       model::ChunkLayout const& layout) {
        bool const evaluate = !draft_.train();
        bool const recompute = !evaluate && draft_.chunk(compute.chunk).recompute;
        Pending pending;
        if (layout.has_input)
            links_.take_input(pending, Direction::forward, ChunkId{compute.chunk.value - 1},
                              compute);
        bool const computes = draft_.computes(items_[item]);
        if (computes)
            buckets_.use_weights(pending, item, true);
        if (!evaluate)
            keep(pending, item, compute, layout);
        if (computes)
            use_workspace(pending, layout,
                          evaluate    ? ChunkPass::evaluate
                          : recompute ? ChunkPass::forward_dropping
                                      : ChunkPass::forward);
        if (layout.has_output)
            links_.give_output(pending, Direction::forward, ChunkId{compute.chunk.value + 1},
                               compute);
        emit(std::move(pending), program::Forward{compute, evaluate});
    }

    /// What a Forward keeps, and its way out where something lies between it and the Backward.
    void keep(Pending& pending, std::size_t item, program::Compute const& compute,
              model::ChunkLayout const& layout) {
        bool const recompute = draft_.chunk(compute.chunk).recompute;
        std::int64_t const bytes = !recompute          ? layout.kept_bytes
                                   : !layout.has_input ? 0
                                                       : input_bytes(compute);
        if (bytes == 0)
            return;
        Kept& own = kept_[{compute.chunk, compute.microbatch}];
        BufferId& place = recompute ? own.inputs : own.kept;
        place = add_activations(recompute ? BufferKind::inputs : BufferKind::kept, compute, bytes);
        pending.uses.push_back({place, Access::write});
        // One item after the Forward it leaves, one before the Backward it comes back.
        if (offloads_activations() && own.has_backward && own.backward >= item + 3)
            deferred_.add(item + 1,
                          [this, &own, place, id = build_.next()] { evict_kept(own, place, id); });
    }

    std::int64_t input_bytes(program::Compute const& compute) const {
        return model::boundary_bytes(input_.model.config(), compute.sequences.size(),
                                     input_.plan.group_of(compute.chunk).compute);
    }

    static program::Copy copy_of(program::Buffer const& buffer) {
        program::Copy copy;
        copy.kind = buffer.kind;
        copy.chunk = buffer.chunk;
        copy.microbatch = buffer.microbatch;
        copy.bytes = buffer.bytes;
        return copy;
    }

    void evict_kept(Kept& own, BufferId place, InstructionId forward) {
        program::Buffer home = build_.buffer(place);
        home.memory = program::Memory::pinned;
        own.home = build_.add_buffer(home);
        own.left = draft_.add_copy(program::Evict{copy_of(home)}, {forward},
                                   {place, Access::read, true}, {own.home, Access::write});
    }

    /// What the item needs and is not on the device.
    void fetch_kept(std::size_t item) {
        if (item >= items_.size() || items_[item].kind == WorkKind::forward)
            return;
        Kept& own = kept_[key(items_[item])];
        if (own.backward != item || !own.left.valid() || own.arrived.valid())
            return;
        program::Buffer device = build_.buffer(own.home);
        device.memory = program::Memory::device;
        device.slot = 1;
        BufferId const place = build_.add_buffer(device);
        (device.kind == BufferKind::inputs ? own.inputs : own.kept) = place;
        own.arrived = draft_.add_copy(program::Fetch{copy_of(device)}, {own.left},
                                      {own.home, Access::read, true}, {place, Access::write});
    }

    void lower_recompute(std::size_t item, program::Compute const& compute,
                         model::ChunkLayout const& layout) {
        Kept& own = kept_.at({compute.chunk, compute.microbatch});
        Pending pending;
        if (own.arrived.valid())
            pending.after.insert(own.arrived);
        if (own.inputs.valid())
            pending.uses.push_back({own.inputs, Access::read, true});
        buckets_.use_weights(pending, item, false);
        own.kept = add_activations(BufferKind::kept, compute, layout.kept_bytes);
        pending.uses.push_back({own.kept, Access::write});
        use_workspace(pending, layout, ChunkPass::forward);
        emit(std::move(pending), program::Recompute{compute});
    }

    void lower_backward(std::size_t item, program::Compute const& compute,
                        model::ChunkLayout const& layout) {
        Work const& work = items_[item];
        bool const fused = work.kind == WorkKind::backward;
        bool const weights_only = work.kind == WorkKind::backward_weight;
        Kept& own = kept_.at(key(work));
        Pending pending;
        if (!weights_only && layout.has_output)
            links_.take_input(pending, Direction::backward, ChunkId{compute.chunk.value + 1},
                              compute);
        buckets_.use_weights(pending, item, true);
        if (layout.kept_bytes > 0) {
            pending.uses.push_back({own.kept, Access::read, fused || weights_only});
            if (own.arrived.valid())
                pending.after.insert(own.arrived);
        }
        if (!fused && layout.kept_for_weights_bytes > 0) {
            if (!weights_only)
                own.kept_for_weights = add_activations(BufferKind::kept_for_weights, compute,
                                                       layout.kept_for_weights_bytes);
            pending.uses.push_back(
                {own.kept_for_weights, weights_only ? Access::read : Access::write, weights_only});
        }
        use_workspace(pending, layout,
                      fused          ? ChunkPass::backward
                      : weights_only ? ChunkPass::backward_weight
                                     : ChunkPass::backward_input);
        if (!weights_only && layout.has_input)
            links_.give_output(pending, Direction::backward, ChunkId{compute.chunk.value - 1},
                               compute);
        std::vector<core::BucketId> clears = buckets_.use_gradients(pending, work);
        if (fused)
            emit(std::move(pending), program::Backward{compute, std::move(clears)});
        else if (weights_only)
            emit(std::move(pending), program::BackwardWeight{compute, std::move(clears)});
        else
            emit(std::move(pending), program::BackwardInput{compute, std::move(clears)});
    }

    bool has_head() const {
        return std::any_of(input_.schedule.ranks[rank_.index()].begin(),
                           input_.schedule.ranks[rank_.index()].end(), [&](Work const& work) {
                               return draft_.chunk(work.chunk).layers.end ==
                                      input_.model.layer_count();
                           });
    }

    /// Scalars of the pass, then what waits for them.
    void finish() {
        if (draft_.train() && has_head())
            last_compute_ = build_.add(program::CountTokens{}, compute_, {}, {});
        if (draft_.train()) {
            buckets_.measure();
            buckets_.fetch_for_update();
        }
        std::set<InstructionId> after;
        if (InstructionId const last = std::max(last_compute_, buckets_.last_compute());
            last.valid())
            after.insert(last);
        InstructionId const scalars = build_.add(program::ReduceScalars{}, collective_, after, {});
        if (draft_.train())
            buckets_.update(scalars);
    }

    LoweringInput const& input_;
    RankId rank_;
    std::vector<Work> items_;
    ProgramBuilder build_;
    Draft draft_;
    core::QueueId compute_, collective_;
    LinkLowering links_;
    BucketLowering buckets_;
    Deferred deferred_;
    BufferId workspace_;
    std::int64_t workspace_bytes_ = 0;
    InstructionId last_compute_;
    std::map<ChunkMicrobatch, Kept> kept_;
    std::map<std::pair<ChunkId, std::int64_t>, model::ChunkLayout> layouts_;
};

} // namespace

program::Program lower_rank(LoweringInput const& input, RankId rank) {
    return RankLowering{input, rank}.run();
}

} // namespace evener::schedule
