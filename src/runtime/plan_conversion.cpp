// SPDX-License-Identifier: Apache-2.0
#include "runtime/plan_conversion.hpp"

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

program::Plan plan_of(job::Job const& job, std::vector<core::DType> const& automatic) {
    program::Plan plan;
    std::int64_t layer = 0;
    for (job::Group const& group : job.plan.groups) {
        program::Group& result = plan.groups.emplace_back();
        result.ranks = group.ranks;
        result.shares = group.shares;
        result.shard_weights = group.shard_weights;
        result.dispatch = group.dispatch == job::Dispatch::dealt ? program::Dispatch::dealt
                                                                 : program::Dispatch::shares;
        result.compute = compute_type(job::compute_of(job.precision, group), group, automatic);
        plan.chunks.push_back(
            {core::GroupId{std::ssize(plan.groups) - 1}, {layer, layer + group.layers}});
        layer += group.layers;
    }
    plan.batch_size = job.train.batch_size;
    plan.microbatch_size = job.train.microbatch_size;
    plan.schedule = job.plan.schedule == job::Schedule::gpipe ? "gpipe" : "1f1b";
    plan.split_backward = job.plan.split_backward;
    plan.receive_buffers = job.plan.receive_buffers;
    plan.boundary_types = program::default_boundary_types(plan);
    if (job.precision.boundary != job::Compute::automatic)
        std::fill(plan.boundary_types.begin(), plan.boundary_types.end(),
                  job.precision.boundary == job::Compute::float32 ? core::DType::float32
                                                                  : core::DType::bfloat16);
    return plan;
}

job::Plan plan_words(program::Plan const& plan, job::Plan const& base) {
    job::Plan words = base;
    words.schedule = plan.schedule == "gpipe" ? job::Schedule::gpipe : job::Schedule::one_f_one_b;
    words.split_backward = plan.split_backward;
    words.receive_buffers = plan.receive_buffers;
    words.groups.clear();
    for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
        program::Group const& group = plan.groups[plan.chunks[c].group.index()];
        words.groups.push_back(
            {.ranks = group.ranks,
             .layers = plan.chunks[c].layers.size(),
             .shares = group.shares,
             .dispatch = group.dispatch == program::Dispatch::dealt ? job::Dispatch::dealt
                                                                    : job::Dispatch::shares,
             .shard_weights = group.shard_weights,
             .compute = group.compute == core::DType::float32 ? job::GroupCompute::float32
                                                              : job::GroupCompute::bfloat16});
    }
    return words;
}

} // namespace evener::runtime
