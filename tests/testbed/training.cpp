// SPDX-License-Identifier: Apache-2.0
#include "testbed/training.hpp"

#include <gtest/gtest.h>

namespace evener::testbed {

namespace {

model::ModelConfig config() {
    model::ModelConfig config;
    config.vocabulary = 31;
    config.hidden_size = 16;
    config.decoder_layers = 3;
    config.heads = 2;
    config.kv_heads = 2;
    config.head_size = 8;
    config.ffn_size = 24;
    config.sequence_length = 12;
    config.tied_embeddings = true;
    return config;
}

program::Plan two_groups() {
    program::Plan plan;
    for (std::int64_t const first : {0, 2}) {
        program::Group group;
        group.ranks = {core::RankId{first}, core::RankId{first + 1}};
        group.shares = {1, 2};
        group.shard_weights = {1, 1};
        plan.groups.push_back(group);
    }
    plan.chunks = {{core::GroupId{0}, {0, 3}}, {core::GroupId{1}, {3, 8}}};
    plan.batch_size = 12;
    plan.microbatch_size = 3;
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

} // namespace

void write_training_data(std::filesystem::path const& folder) {
    system_test::write_tokens(folder / "tokens.bin", config().vocabulary, 60 * 12 + 1, 7);
}

job::Job training_job(std::filesystem::path const& folder, std::string const& name,
                      std::int64_t steps) {
    job::Job job = system_test::with_plan(
        system_test::small_job(config(), folder / "tokens.bin", folder / name, steps),
        two_groups());
    job.optimizer.kind = job::OptimizerKind::adamw;
    job.optimizer.learning_rate = 0.01;
    return job;
}

void expect_same_run(std::filesystem::path const& a, std::filesystem::path const& b,
                     std::int64_t steps) {
    auto const losses = system_test::metrics(a, "loss");
    EXPECT_EQ(losses.size(), static_cast<std::size_t>(steps)) << a;
    EXPECT_EQ(losses, system_test::metrics(b, "loss")) << a << " and " << b;
    EXPECT_TRUE(system_test::same_checkpoint(system_test::step_folder(a, steps),
                                             system_test::step_folder(b, steps)))
        << a << " and " << b;
}

} // namespace evener::testbed
