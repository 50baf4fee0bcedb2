// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_conversion.hpp"

#include "program/placement.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::runtime {

model::ModelConfig model_config(job::Model const& model) {
    return {.vocabulary = model.vocabulary,
            .hidden_size = model.hidden_size,
            .decoder_layers = model.layers,
            .heads = model.heads,
            .kv_heads = model.kv_heads,
            .head_size = model.head_size,
            .ffn_size = model.ffn_size,
            .sequence_length = model.sequence_length,
            .rope_theta = model.rope_theta,
            .norm_epsilon = static_cast<float>(model.norm_epsilon),
            .tied_embeddings = model.tied_embeddings,
            .attention_bias = model.attention_bias,
            .attention_output_bias = model.attention_output_bias,
            .mlp_bias = model.mlp_bias,
            .init_std = static_cast<float>(model.init_std)};
}

namespace {

core::DType compute_type(job::Compute compute, job::Group const& group,
                         std::vector<core::DType> const& automatic) {
    if (compute == job::Compute::float32)
        return core::DType::float32;
    if (compute == job::Compute::bfloat16)
        return core::DType::bfloat16;
    bool const narrow = std::all_of(group.ranks.begin(), group.ranks.end(), [&](core::RankId rank) {
        return automatic.at(rank.index()) == core::DType::bfloat16;
    });
    return narrow ? core::DType::bfloat16 : core::DType::float32;
}

} // namespace

namespace {

program::Placement placement_of(job::Placement placement) {
    return placement == job::Placement::v ? program::Placement::v : program::Placement::round_robin;
}

program::Group group_of(job::Group const& words) {
    program::Group group;
    group.ranks = words.ranks;
    group.shares = words.shares;
    group.shard_weights = words.shard_weights;
    group.dispatch = words.dispatch == job::Dispatch::dealt ? program::Dispatch::dealt
                                                            : program::Dispatch::shares;
    for (core::RankId const rank : words.deal)
        group.deal.push_back(core::narrow<std::int32_t>(program::member_of(group, rank)));
    job::Offload const offload = words.offload.value_or(job::Offload{});
    group.offload = {offload.parameters, offload.optimizer, offload.activations};
    return group;
}

std::vector<program::Chunk> chunks_of(job::Plan const& words) {
    std::vector<core::GroupId> groups;
    std::vector<std::int64_t> layers;
    for (job::Chunk const& chunk : words.chunks) {
        groups.emplace_back(chunk.group);
        layers.push_back(chunk.layers);
    }
    if (!groups.empty()) {
        std::vector<program::Chunk> chunks = program::make_chunks(groups, layers);
        for (std::size_t c = 0; c < chunks.size(); ++c)
            chunks[c].recompute = words.chunks[c].recompute.value_or(words.recompute);
        return chunks;
    }
    for (job::Group const& group : words.groups) {
        if (group.layers < words.chunks_per_group)
            throw core::ConfigError{
                fmt::format("'plan.chunks_per_group' is {}, but group {} has {} layers (a chunk "
                            "needs at least one); lower it",
                            words.chunks_per_group, layers.size(), group.layers)};
        layers.push_back(group.layers);
    }
    std::vector<program::Chunk> chunks =
        program::place(placement_of(words.placement), layers, words.chunks_per_group);
    for (program::Chunk& chunk : chunks)
        chunk.recompute = words.recompute;
    return chunks;
}

} // namespace

program::Plan plan_of(job::Job const& job, std::vector<core::DType> const& automatic,
                      std::vector<bool> const& own_memory) {
    program::Plan plan;
    for (job::Group const& words : job.plan.groups) {
        program::Group& group = plan.groups.emplace_back(group_of(words));
        group.compute = compute_type(job::compute_of(job.precision, words), words, automatic);
        for (core::RankId const rank : group.ranks)
            if (!own_memory.empty())
                group.own_memory.push_back(own_memory.at(rank.index()));
    }
    plan.chunks = chunks_of(job.plan);
    plan.batch_size = job.train.batch_size;
    plan.microbatch_size = job.train.microbatch_size;
    plan.schedule = job::name_of(job.plan.schedule);
    plan.split_backward = job.plan.split_backward;
    plan.receive_buffers = job.plan.receive_buffers;
    plan.interleaved_updates = job.plan.interleave_updates;
    plan.boundary_types = program::default_boundary_types(plan);
    if (job.precision.boundary != job::Compute::automatic)
        std::fill(plan.boundary_types.begin(), plan.boundary_types.end(),
                  job.precision.boundary == job::Compute::float32 ? core::DType::float32
                                                                  : core::DType::bfloat16);
    return plan;
}

namespace {

/// The chunks in the words of the base where these can say it, else in the shortest that can.
void add_chunk_words(program::Plan const& plan, job::Plan const& base, job::Plan& words) {
    std::vector<std::int64_t> layers(plan.groups.size());
    for (program::Chunk const& chunk : plan.chunks)
        layers[chunk.group.index()] += chunk.layers.size();
    auto const chunks = std::ssize(plan.chunks);
    auto const groups = std::ssize(plan.groups);
    bool const recompute = plan.chunks.front().recompute;
    bool const same = std::ranges::all_of(
        plan.chunks, [&](program::Chunk const& chunk) { return chunk.recompute == recompute; });
    if (base.chunks.empty() && same && chunks % groups == 0)
        for (job::Placement const placement :
             {base.placement, job::Placement::round_robin, job::Placement::v})
            if (program::is_placed(plan, placement_of(placement), chunks / groups)) {
                words.placement = placement;
                words.chunks_per_group = chunks / groups;
                words.recompute = recompute;
                for (std::size_t g = 0; g < layers.size(); ++g)
                    words.groups[g].layers = layers[g];
                return;
            }
    words.chunks_per_group = 1;
    for (program::Chunk const& chunk : plan.chunks)
        words.chunks.push_back({chunk.group.value, chunk.layers.size(), chunk.recompute});
}

} // namespace

job::Plan plan_words(program::Plan const& plan, job::Plan const& base) {
    job::Plan words = base;
    auto const name = std::ranges::find(job::Names<job::Schedule>::list, plan.schedule);
    EVENER_EXPECT(name != job::Names<job::Schedule>::list.end());
    words.schedule = static_cast<job::Schedule>(name - job::Names<job::Schedule>::list.begin());
    words.split_backward = plan.split_backward;
    words.receive_buffers = plan.receive_buffers;
    words.interleave_updates = plan.interleaved_updates;
    words.groups.clear();
    words.chunks.clear();
    for (program::Group const& group : plan.groups) {
        job::Group& result = words.groups.emplace_back();
        result.ranks = group.ranks;
        result.shares = group.shares;
        result.dispatch = group.dispatch == program::Dispatch::dealt ? job::Dispatch::dealt
                                                                     : job::Dispatch::shares;
        for (std::int32_t const member : group.deal)
            result.deal.push_back(group.ranks[static_cast<std::size_t>(member)]);
        result.shard_weights = group.shard_weights;
        result.compute = group.compute == core::DType::float32 ? job::GroupCompute::float32
                                                               : job::GroupCompute::bfloat16;
        result.offload = job::Offload{group.offload.parameters, group.offload.optimizer,
                                      group.offload.activations};
    }
    add_chunk_words(plan, base, words);
    return words;
}

void take_groups(program::Plan const& made, job::Plan& words) {
    words.groups = plan_words(made, words).groups;
    for (job::Group& group : words.groups)
        group.offload = words.offload;
}

} // namespace evener::runtime
