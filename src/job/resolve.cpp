// SPDX-License-Identifier: Apache-2.0
#include "job/resolve.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::job {

namespace {

void resolve_model(Model& model) {
    Model const preset = preset_model(model.preset);
    for (auto const member :
         {&Model::vocabulary, &Model::hidden_size, &Model::layers, &Model::heads, &Model::kv_heads,
          &Model::head_size, &Model::ffn_size, &Model::sequence_length})
        if (model.*member == 0)
            model.*member = preset.*member;
    if (model.kv_heads == 0)
        model.kv_heads = model.heads;
    if (model.head_size == 0 && model.heads > 0 && model.hidden_size % model.heads == 0)
        model.head_size = model.hidden_size / model.heads;
}

std::string stem(std::string_view file) {
    file.remove_prefix(file.find_last_of('/') + 1); // npos + 1 is 0
    if (file.ends_with(".toml"))
        file.remove_suffix(5);
    return std::string{file};
}

} // namespace

Model preset_model(Preset preset) {
    Model model;
    model.preset = preset;
    switch (preset) {
    case Preset::none:
        break;
    case Preset::tiny: // bytes as tokens
        model.vocabulary = 256;
        model.hidden_size = 192;
        model.layers = 6;
        model.heads = 6;
        model.ffn_size = 512;
        model.sequence_length = 256;
        break;
    case Preset::gpt_124m: // GPT-2 small's width and depth
        model.vocabulary = 50304;
        model.hidden_size = 768;
        model.layers = 12;
        model.heads = 12;
        model.ffn_size = 2048;
        model.sequence_length = 1024;
        model.tied_embeddings = true;
        break;
    case Preset::llama_1b: // Llama 3.2 1B
        model.vocabulary = 128256;
        model.hidden_size = 2048;
        model.layers = 16;
        model.heads = 32;
        model.kv_heads = 8;
        model.ffn_size = 8192;
        model.sequence_length = 2048;
        model.rope_theta = 500000.0;
        model.tied_embeddings = true;
        break;
    case Preset::llama_7b: // Llama 2 7B
        model.vocabulary = 32000;
        model.hidden_size = 4096;
        model.layers = 32;
        model.heads = 32;
        model.ffn_size = 11008;
        model.sequence_length = 4096;
        break;
    }
    return model;
}

void resolve(Plan& plan) {
    for (Group& group : plan.groups) {
        if (group.shares.empty())
            group.shares.assign(group.ranks.size(), 1);
        if (group.shard_weights.empty())
            group.shard_weights.assign(group.ranks.size(), 1);
        if (!group.offload)
            group.offload = plan.offload;
    }
    for (Chunk& chunk : plan.chunks)
        if (!chunk.recompute)
            chunk.recompute = plan.recompute;
}

std::string drop_mismatch(Plan& plan, std::int64_t ranks) {
    std::int64_t named = 0; // by the highest, since a rank that is left out is a mistake of its own
    for (Group const& group : plan.groups)
        for (core::RankId const rank : group.ranks)
            named = std::max<std::int64_t>(named, rank.value + std::int64_t{1});
    if (plan.on_mismatch != OnMismatch::replan || ranks == 0 || named == 0 || named == ranks)
        return {};
    plan.groups.clear();
    plan.chunks.clear();
    plan.schedule_file.clear();
    return fmt::format("'plan.groups' are for {} ranks, this job has {}: planning anew "
                       "('plan.on_mismatch' is \"replan\")",
                       named, ranks);
}

void resolve(Job& job, std::string_view file) {
    if (job.run.name.empty())
        job.run.name = stem(file);
    if (job.run.out.empty())
        job.run.out = "runs/" + job.run.name;
    resolve_model(job.model);
    if (job.train.microbatch_size == 0)
        job.train.microbatch_size = std::max<std::int64_t>(1, job.train.batch_size / 8);
    if (job.optimizer.decay_steps == 0)
        job.optimizer.decay_steps = job.train.steps;
    resolve(job.plan);
}

} // namespace evener::job
