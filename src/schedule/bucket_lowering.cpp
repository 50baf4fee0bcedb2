// SPDX-License-Identifier: Apache-2.0
// Parameters of a rank through a step: gathered, fetched, read, their gradients reduced, measured and
// out of the way, the update, and what goes home.
#include "schedule/lowering_parts.hpp"

#include <algorithm>

namespace evener::schedule {

using core::BucketId;
using core::ChunkId;
using core::InstructionId;
using program::Access;
using program::Bucket;
using program::BufferKind;
using program::Memory;
using program::Use;
using program::Work;
using program::WorkKind;

namespace {

bool has_mixed_types(Bucket const& bucket) {
    return std::any_of(bucket.types.begin(), bucket.types.end(),
                       [&](core::DType type) { return type != bucket.types.front(); });
}

} // namespace

BucketLowering::BucketLowering(Draft const& draft, core::QueueId compute, core::QueueId collective)
    : draft_{draft}, compute_{compute},
      collective_{collective}, offload_{program::offload_of(draft.input.plan, draft.rank)} {
    for (Bucket const& bucket : draft.input.buckets)
        if (std::binary_search(bucket.members.begin(), bucket.members.end(), draft.rank))
            add_state(bucket);
    for (BucketId const id : draft.input.reduction_order)
        for (std::size_t s = 0; s < states_.size(); ++s)
            if (states_[s].bucket->id == id)
                reduction_order_.push_back(s);
    std::vector<ChunkId> chunks;
    for (Work const& work : draft.items)
        chunks.push_back(draft.computes(work) && has_offloaded_weights(work.chunk) ? work.chunk
                                                                                   : ChunkId{});
    residences_ = residences_of(chunks);
}

void BucketLowering::add_state(Bucket const& bucket) {
    State state;
    state.bucket = &bucket;
    state.shared = bucket.members.size() > 1;
    state.holds = bucket.holds(draft_.rank);
    state.weights_offloaded = offload_.parameters && bucket.chunks.size() == 1;
    state.owned = bucket.shard_of(draft_.rank).size();
    for (std::size_t i = 0; i < draft_.items.size(); ++i)
        if (reads(state, draft_.items[i].chunk))
            state.last_item = i;
    std::size_t run_start = state.last_item;
    while (run_start > 0 && run_start < draft_.items.size() &&
           draft_.items[run_start - 1].chunk == draft_.items[state.last_item].chunk)
        --run_start;
    state.shards_item = (run_start + state.last_item + 1) / 2;
    add_buffers(state);
    states_.push_back(state);
}

void BucketLowering::add_buffers(State& state) {
    Bucket const& bucket = *state.bucket;
    ProgramBuilder& build = draft_.build;
    core::BufferId const weights =
        build.add_buffer({.kind = BufferKind::weights,
                          .memory = state.weights_offloaded ? Memory::pinned : Memory::device,
                          .persistent = true,
                          .bytes = bucket.weights_of(draft_.rank).size() *
                                   core::bytes_of(bucket.type_of(draft_.rank)),
                          .bucket = bucket.id});
    (state.weights_offloaded ? state.weights_home : state.weights) = weights;
    if (state.owned > 0) {
        core::BufferId const shards =
            build.add_buffer({.kind = BufferKind::shards,
                              .memory = offload_.optimizer ? Memory::pinned : Memory::device,
                              .persistent = true,
                              .bytes = state.owned * 4 * (1 + draft_.input.options.moments),
                              .bucket = bucket.id});
        (offload_.optimizer ? state.shards_home : state.shards) = shards;
    }
    if (!draft_.train())
        return;
    if (state.holds)
        state.gradients = build.add_buffer(
            {.kind = BufferKind::gradients, .bytes = bucket.elements * 4, .bucket = bucket.id});
    if (state.owned > 0)
        state.reduced =
            state.shared
                ? build.add_buffer(
                      {.kind = BufferKind::reduced, .bytes = state.owned * 4, .bucket = bucket.id})
                : state.gradients;
}

bool BucketLowering::reads(State const& state, ChunkId chunk) const {
    auto const& chunks = state.bucket->chunks;
    return std::find(chunks.begin(), chunks.end(), chunk) != chunks.end();
}

bool BucketLowering::has_offloaded_weights(ChunkId chunk) const {
    return std::any_of(states_.begin(), states_.end(), [&](State const& state) {
        return state.weights_offloaded && reads(state, chunk);
    });
}

void BucketLowering::gather() {
    for (State& state : states_) {
        if (!state.shared)
            continue;
        bool const offloaded = state.weights_offloaded;
        std::vector<Use> uses{{offloaded ? state.weights_home : state.weights, Access::update}};
        if (has_mixed_types(*state.bucket) && state.owned > 0)
            uses.push_back({offload_.optimizer ? state.shards_home : state.shards, Access::read});
        state.gathered = draft_.build.add(program::GatherParameters{state.bucket->id}, collective_,
                                          {}, std::move(uses));
    }
}

// --- weights on the device

void BucketLowering::before_item(std::size_t item) {
    while (next_residence_ < residences_.size() &&
           residences_[next_residence_].fetch_before <= item) {
        Residence const& residence = residences_[next_residence_++];
        for (State& state : states_)
            if (state.weights_offloaded && state.holds && reads(state, residence.chunk))
                fetch_weights(state, residence);
    }
    if (!draft_.train() || !draft_.input.plan.interleaved_updates || !offload_.optimizer)
        return;
    for (State& state : states_)
        if (state.holds && state.owned > 0 && state.shards_item == item && is_early())
            fetch_shards(state);
}

void BucketLowering::fetch_weights(State& state, Residence const& residence) {
    program::Buffer const home = draft_.build.buffer(state.weights_home);
    state.weights = draft_.build.add_buffer({.kind = BufferKind::weights,
                                             .bytes = home.bytes,
                                             .bucket = home.bucket,
                                             .slot = state.residences});
    std::set<InstructionId> after;
    if (state.gathered.valid())
        after.insert(state.gathered);
    program::Fetch fetch;
    fetch.kind = BufferKind::weights;
    fetch.bucket = home.bucket;
    fetch.slot = state.residences++;
    fetch.bytes = home.bytes;
    state.arrived = draft_.add_copy(fetch, after, {state.weights_home, Access::read},
                                    {state.weights, Access::write});
    state.residence_end = residence.last;
    state.weights_awaited = false;
}

void BucketLowering::use_weights(Pending& pending, std::size_t item, bool last) {
    for (State& state : states_) {
        if (!reads(state, draft_.items[item].chunk))
            continue;
        bool const ends = state.weights_offloaded && last && item == state.residence_end;
        pending.uses.push_back({state.weights, Access::read, ends});
        InstructionId const ready = state.weights_offloaded ? state.arrived : state.gathered;
        if (ready.valid() && !state.weights_awaited)
            pending.after.insert(ready);
        state.weights_awaited = true;
    }
}

// --- gradients

/// Whether this work accumulates into the bucket's gradient.
bool BucketLowering::accumulates(State const& state, Work const& work) const {
    core::Range const layers = draft_.chunk(work.chunk).layers;
    model::Model const& model = draft_.input.model;
    for (program::BucketParameter const& entry : state.bucket->parameters)
        for (core::LayerId const layer : model.layers_of(entry.parameter)) {
            if (layer.value < layers.begin || layer.value >= layers.end)
                continue;
            bool const early = model.layer(layer).gradients_in_backward_input();
            if (work.kind == WorkKind::backward || (work.kind == WorkKind::backward_input) == early)
                return true;
        }
    return false;
}

std::vector<BucketId> BucketLowering::use_gradients(Pending& pending, Work const& work) {
    std::vector<BucketId> clears;
    for (State& state : states_) {
        if (!state.holds || !accumulates(state, work))
            continue;
        bool const first = !state.last_gradient.valid();
        if (first)
            clears.push_back(state.bucket->id);
        pending.uses.push_back({state.gradients, first ? Access::write : Access::update});
        state.last_gradient = draft_.build.next();
    }
    return clears;
}

void BucketLowering::after_item(std::size_t item) {
    if (!draft_.train() || !is_early())
        return;
    for (State& state : states_)
        if (!state.shared && state.holds && state.last_item == item)
            end_gradient(state, item);
    reduce_complete(item);
    deferred_.run(item);
}

void BucketLowering::after_items() {
    if (!draft_.train())
        return;
    std::size_t const end = draft_.items.size();
    if (!is_early())
        for (State& state : states_)
            if (!state.shared)
                end_gradient(state, end);
    reduce_complete(end + 1);
    deferred_.run_all();
}

/// Reduces, in the common order, buckets whose last item was over before `item` was: one item of
/// another chunk stands between, so that its gradient is not put into the same memory.
void BucketLowering::reduce_complete(std::size_t item) {
    for (; next_reduction_ < reduction_order_.size(); ++next_reduction_) {
        State& state = states_[reduction_order_[next_reduction_]];
        if (!state.shared)
            continue;
        if (state.holds && state.last_item >= item)
            return;
        reduce(state);
        deferred_.add(item + 1, [this, &state, item] { end_gradient(state, item + 1); });
    }
}

void BucketLowering::reduce(State& state) {
    std::vector<Use> uses;
    std::set<InstructionId> after;
    if (state.gradients.valid()) {
        uses.push_back({state.gradients, Access::read, true});
        after.insert(state.last_gradient);
    }
    if (state.reduced.valid())
        uses.push_back({state.reduced, Access::write});
    state.reduction = draft_.build.add(program::ReduceGradients{state.bucket->id}, collective_,
                                       after, std::move(uses));
}

/// The reduced gradient is there.
void BucketLowering::end_gradient(State& state, std::size_t item) {
    if (state.owned == 0)
        return;
    if (draft_.input.plan.interleaved_updates) {
        measure(state);
        update(state, {});
    } else if (offload_.optimizer) {
        measure(state);
        deferred_.add(item + 1, [this, &state] { evict_gradient(state); });
    }
}

void BucketLowering::measure(State& state) {
    std::set<InstructionId> after;
    if (state.reduction.valid())
        after.insert(state.reduction);
    state.measurement = last_compute_ =
        draft_.build.add(program::MeasureGradients{state.bucket->id}, compute_, after,
                         {{state.reduced, Access::read}});
}

void BucketLowering::measure() {
    for (State* const state : in_reduction_order())
        if (state->owned > 0 && !state->measurement.valid())
            measure(*state);
}

void BucketLowering::evict_gradient(State& state) {
    program::Evict evict;
    evict.kind = draft_.build.buffer(state.reduced).kind;
    evict.bucket = state.bucket->id;
    evict.bytes = state.owned * 4;
    state.reduced_home = draft_.build.add_buffer({.kind = BufferKind::reduced,
                                                  .memory = Memory::pinned,
                                                  .bytes = evict.bytes,
                                                  .bucket = evict.bucket});
    state.reduced_left =
        draft_.add_copy(evict, {state.measurement}, {state.reduced, Access::read, true},
                        {state.reduced_home, Access::write});
}

// --- updates

void BucketLowering::fetch_shards(State& state) {
    program::Fetch fetch;
    fetch.kind = BufferKind::shards;
    fetch.bucket = state.bucket->id;
    fetch.bytes = draft_.build.buffer(state.shards_home).bytes;
    state.shards = draft_.build.add_buffer(
        {.kind = BufferKind::shards, .bytes = fetch.bytes, .bucket = fetch.bucket});
    state.fetched.insert(draft_.add_copy(fetch, {}, {state.shards_home, Access::read},
                                         {state.shards, Access::write}));
}

void BucketLowering::fetch_gradient(State& state) {
    program::Fetch fetch;
    fetch.kind = BufferKind::reduced;
    fetch.bucket = state.bucket->id;
    fetch.bytes = state.owned * 4;
    state.reduced = draft_.build.add_buffer(
        {.kind = BufferKind::reduced, .bytes = fetch.bytes, .bucket = fetch.bucket, .slot = 1});
    state.fetched.insert(draft_.add_copy(fetch, {state.reduced_left},
                                         {state.reduced_home, Access::read, true},
                                         {state.reduced, Access::write}));
}

std::vector<BucketLowering::State*> BucketLowering::in_reduction_order() {
    std::vector<State*> result;
    for (std::size_t const s : reduction_order_)
        result.push_back(&states_[s]);
    return result;
}

std::vector<BucketLowering::State*> BucketLowering::updates_left() {
    std::vector<State*> left = in_reduction_order();
    std::erase_if(left, [](State const* state) { return state->owned == 0 || state->updated; });
    return left;
}

void BucketLowering::fetch_for_update(State& state) {
    if (!offload_.optimizer || !state.fetched.empty())
        return;
    fetch_gradient(state);
    fetch_shards(state);
}

void BucketLowering::fetch_for_update() {
    if (std::vector<State*> const left = updates_left(); !left.empty())
        fetch_for_update(*left.front());
}

void BucketLowering::update(InstructionId scalars) {
    std::vector<State*> const left = updates_left();
    for (std::size_t i = 0; i < left.size(); ++i) {
        if (i + 1 < left.size())
            fetch_for_update(*left[i + 1]);
        update(*left[i], i == 0 ? std::set<InstructionId>{scalars} : std::set<InstructionId>{});
    }
}

void BucketLowering::update(State& state, std::set<InstructionId> after) {
    if (offload_.optimizer && state.fetched.empty())
        fetch_shards(state); // interleaved, on a rank that computes nothing with it
    after.insert(state.fetched.begin(), state.fetched.end());
    std::vector<Use> uses{{state.reduced, Access::read, true}, {state.shards, Access::update}};
    core::BufferId updated = state.weights;
    std::int64_t const bytes = state.owned * core::bytes_of(state.bucket->type_of(draft_.rank));
    if (state.weights_offloaded)
        updated = draft_.build.add_buffer(
            {.kind = BufferKind::updated, .bytes = bytes, .bucket = state.bucket->id});
    uses.push_back({updated, state.weights_offloaded ? Access::write : Access::update});
    InstructionId const id = last_compute_ = draft_.build.add(
        program::UpdateParameters{state.bucket->id}, compute_, after, std::move(uses));
    state.updated = true;
    program::Evict evict;
    evict.bucket = state.bucket->id;
    if (state.weights_offloaded) {
        evict.kind = BufferKind::updated;
        evict.bytes = bytes;
        draft_.add_copy(evict, {id}, {updated, Access::read, true},
                        {state.weights_home, Access::update});
    }
    if (offload_.optimizer) {
        evict.kind = BufferKind::shards;
        evict.bytes = draft_.build.buffer(state.shards).bytes;
        draft_.add_copy(evict, {id}, {state.shards, Access::read, true},
                        {state.shards_home, Access::update});
    }
}

} // namespace evener::schedule
