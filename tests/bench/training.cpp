// SPDX-License-Identifier: Apache-2.0
#include "bench/training.hpp"

#include "program/costs.hpp"
#include "runtime/parameters.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"

#include <algorithm>
#include <chrono>

namespace evener::bench {

model::ModelConfig speed_model() {
    model::ModelConfig config;
    config.vocabulary = 8192;
    config.hidden_size = 512;
    config.decoder_layers = 8;
    config.heads = config.kv_heads = 8;
    config.head_size = 64;
    config.ffn_size = 1408;
    config.sequence_length = 512;
    return config;
}

program::Plan chain_plan(model::Model const& model, std::vector<std::int64_t> const& cuts,
                         std::int64_t batch_size, std::int64_t microbatch_size, core::DType type) {
    program::Plan plan;
    for (std::size_t g = 0; g < cuts.size(); ++g) {
        core::GroupId const id{static_cast<std::int64_t>(g)};
        plan.groups.push_back({.ranks = {core::RankId{id.value}},
                               .shares = {1},
                               .shard_weights = {1},
                               .compute = type});
        plan.chunks.push_back(
            {id, {cuts[g], g + 1 < cuts.size() ? cuts[g + 1] : model.layer_count()}});
    }
    plan.batch_size = batch_size;
    plan.microbatch_size = microbatch_size;
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

void HashedTokens::read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> targets) const {
    auto hash = static_cast<std::uint64_t>(step * 1000003 + sequence + 1);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
        hash = hash * 6364136223846793005u + 1442695040888963407u;
        inputs[i] =
            static_cast<std::int32_t>((hash >> 33) % static_cast<std::uint64_t>(vocabulary_));
        targets[i] = (inputs[i] + 1) % static_cast<std::int32_t>(vocabulary_);
    }
}

std::int64_t HashedTokens::valid_targets(std::int64_t, std::int64_t) const {
    return 1;
}

Training::Training(comm::MpiSession const& mpi, comm::Transport& transport,
                   model::Model const& model, program::Plan const& plan,
                   TrainingOptions const& options)
    : mpi_{mpi}, device_{device::open_device(device::Backend::host, {options.threads})},
      cache_{*device_}, tokens_{model.config().vocabulary} {
    auto const rank = static_cast<std::size_t>(mpi.rank());
    std::int64_t const mine =
        runtime::prepare_plan(cache_, plan, model, core::RankId{mpi.rank()}, true);
    std::vector<std::int64_t> workspace;
    for (auto const& bytes :
         comm::all_gather_values(mpi.world(), std::span<std::int64_t const>{&mine, 1}))
        workspace.push_back(bytes.front());
    auto const lower = [&](program::ProgramKind kind) {
        bool const given = options.schedule != nullptr && kind == program::ProgramKind::train;
        return schedule::lower(
            plan, model, given ? *options.schedule : schedule::generate(plan, kind),
            {.kind = kind, .device_workspace_bytes = workspace, .costs = options.costs});
    };
    program::ProgramSet train = lower(program::ProgramKind::train);
    std::vector<double> rehearsal;
    if (double const work = options.work_seconds; work > 0)
        rehearsal = program::instruction_seconds(
            program::uniform_costs(plan, {work, work, work, work}), train)[rank];
    session_.reset(new runtime::Session{{.rank = core::RankId{mpi.rank()},
                                         .model = model,
                                         .cache = cache_,
                                         .transport = transport,
                                         .train = std::move(train),
                                         .evaluate = lower(program::ProgramKind::evaluate),
                                         .device_workspace_bytes = mine,
                                         .arena = {options.threads},
                                         .rehearsal_seconds = std::move(rehearsal)}});
    runtime::initialize_parameters(*session_, 1);
    runtime::StepState& state = session_->state();
    state.loss_scale = 1.0f / static_cast<float>(plan.batch_size * model.config().sequence_length);
    state.decayed = {1e-4f, 0.9f, 0.95f, 1e-8f, 0.1f, 1, 0.1f, 0.05f};
    state.not_decayed = state.decayed;
    state.clip_norm = 1;
}

double Training::step() {
    mpi_.world().barrier();
    auto const begin = std::chrono::steady_clock::now();
    session_->run_train(tokens_);
    ++session_->state().step;
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

} // namespace evener::bench
