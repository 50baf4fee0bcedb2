// SPDX-License-Identifier: Apache-2.0
#include "system/parity_cases.hpp"

#include "program/placement.hpp"
#include "program/schedule_text.hpp"
#include "schedule/generators.hpp"
#include "support/random_schedule.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace evener::system_test {

namespace {

using support::Random;

constexpr double tolerance = 1e-5;

model::ModelConfig random_model(Random& random) {
    model::ModelConfig config;
    config.vocabulary = random.integer(7, 41);
    config.kv_heads = random.integer(1, 2);
    config.heads = config.kv_heads * random.integer(1, 2);
    config.head_size = 2 * random.integer(1, 5);
    config.hidden_size = random.integer(5, 24);
    config.decoder_layers = random.integer(1, 4);
    config.ffn_size = random.integer(5, 29);
    config.sequence_length = random.integer(2, 13);
    config.tied_embeddings = random.chance(50);
    config.attention_bias = random.chance(30);
    config.attention_output_bias = random.chance(30);
    config.mlp_bias = random.chance(30);
    return config;
}

/// `total` in `parts` positive integers.
std::vector<std::int64_t> random_parts(Random& random, std::int64_t total, std::int64_t parts) {
    std::vector<std::int64_t> result(static_cast<std::size_t>(parts), 1);
    for (std::int64_t left = total - parts; left > 0; --left)
        ++result[random.index(result.size())];
    return result;
}

program::Group random_group(Random& random, std::int64_t first_rank, std::int64_t size) {
    program::Group group;
    for (std::int64_t i = 0; i < size; ++i) {
        group.ranks.emplace_back(first_rank + i);
        group.shares.push_back(random.chance(30) ? 0.0 : static_cast<double>(random.integer(1, 3)));
        group.shard_weights.push_back(
            random.chance(20) ? 0.0 : static_cast<double>(random.integer(1, 4)));
    }
    group.shares[random.index(group.shares.size())] = 2;
    group.shard_weights[random.index(group.shares.size())] = 1;
    if (random.chance(size > 1 ? 50 : 20))
        group.dispatch = program::Dispatch::dealt;
    return group;
}

/// One to four chunks per group, in turns, in a V or anyhow, and a schedule for them.
void place_chunks(Random& random, program::Plan& plan, std::int64_t layers) {
    auto const groups = std::ssize(plan.groups);
    std::int64_t const turns =
        random.chance(30) ? 1 : random.integer(1, std::min<std::int64_t>(4, layers / groups));
    std::vector<std::string> names{"gpipe", "breadth_first"};
    auto placement = program::Placement::round_robin;
    if (turns == 1)
        names = {"1f1b", "1f1b", "gpipe", "zb-h1", "zb-h2"};
    else if (turns == 2 && random.chance(60)) {
        placement = program::Placement::v;
        names = {"zb-v", "zb-v", "zb-v", "gpipe", "breadth_first"};
    } else
        names.insert(names.end(), 3, "interleaved");
    auto chunks = program::placed_groups(placement, groups, turns);
    if (turns > 1 && random.chance(15)) { // any map
        for (std::size_t c = 0; c + 1 < chunks.size(); ++c)
            std::swap(chunks[c], chunks[c + random.index(chunks.size() - c)]);
        names = {"gpipe", "breadth_first"};
    }
    plan.chunks = program::make_chunks(chunks, random_parts(random, layers, std::ssize(chunks)));
    plan.schedule = random.pick(names);
}

double norm(std::vector<float> const& values) {
    double sum = 0;
    for (float const value : values)
        sum += static_cast<double>(value) * value;
    return std::sqrt(sum);
}

} // namespace

ParityCase random_parity_case(std::uint64_t seed) {
    Random random{seed};
    ParityCase result;
    result.config = random_model(random);
    result.masked = random.chance(40);
    result.clipped = random.chance(40);
    program::Plan& plan = result.plan;
    std::int64_t const layers = 2 + 2 * result.config.decoder_layers;
    std::int64_t const ranks = random.integer(2, 6);
    std::int64_t const groups = random.integer(ranks > 2 ? 2 : 1, std::min(ranks, std::int64_t{3}));
    auto sizes = random_parts(random, ranks, groups);
    if (random.chance(70)) // most plans are uneven
        for (int tries = 0; tries < 9 && std::ranges::minmax(sizes).min == std::ranges::max(sizes);
             ++tries)
            sizes = random_parts(random, ranks, groups);
    std::int64_t rank = 0;
    for (std::int64_t const size : sizes) {
        plan.groups.push_back(random_group(random, rank, size));
        rank += size;
    }
    place_chunks(random, plan, layers);
    plan.microbatch_size = random.integer(1, 4);
    plan.batch_size = random.integer(plan.microbatch_size, 5 * plan.microbatch_size + 1);
    plan.split_backward = random.chance(30);
    plan.boundary_types = program::default_boundary_types(plan);
    for (program::Group& group : plan.groups)
        if (group.dispatch == program::Dispatch::dealt && random.chance(30))
            for (std::int64_t i = 0; i < plan.microbatch_count(); ++i)
                group.deal.push_back(static_cast<std::int32_t>(random.index(group.ranks.size())));
    if (random.chance(25))
        result.orders = print_schedule(support::edited(
            random, plan, schedule::generate(plan, program::ProgramKind::train), 12));
    return result;
}

program::Plan one_rank(program::Plan plan, std::int64_t layers) {
    plan.groups = {program::Group{}};
    plan.groups[0].ranks = {core::RankId{0}};
    plan.groups[0].shares = {1};
    plan.groups[0].shard_weights = {1};
    plan.chunks = {{core::GroupId{0}, {0, layers}}};
    plan.boundary_types = {};
    plan.split_backward = false;
    plan.schedule = "1f1b";
    return plan;
}

job::Job job_of(ParityCase const& c, std::filesystem::path const& tokens,
                std::filesystem::path const& out) {
    job::Job job = small_job(c.config, tokens, out, parity_steps);
    job.data.ignore_token = c.masked ? 3 : -1;
    job.optimizer.clip_norm = c.clipped ? 0.3 : 0;
    return job;
}

/// Per tensor: ||difference|| <= tolerance x max(||gradient||, 1e-3 ||all gradients||).
void expect_equal_gradients(Tensors const& expected, Tensors const& found, std::int64_t step) {
    ASSERT_EQ(expected.size(), found.size());
    double all = 0;
    for (auto const& [name, values] : expected)
        all += norm(values) * norm(values);
    ASSERT_GT(all, 0);
    for (auto const& [name, values] : expected) {
        std::vector<float> difference = values;
        auto const& other = found.at(name);
        ASSERT_EQ(other.size(), values.size()) << name;
        for (std::size_t i = 0; i < values.size(); ++i)
            difference[i] -= other[i];
        EXPECT_LE(norm(difference), tolerance * std::max(norm(values), 1e-3 * std::sqrt(all)))
            << name << " at step " << step;
    }
}

void expect_equal_losses(std::filesystem::path const& a, std::filesystem::path const& b) {
    auto const expected = metrics(a, "loss");
    auto const found = metrics(b, "loss");
    ASSERT_EQ(static_cast<std::int64_t>(expected.size()), parity_steps);
    ASSERT_EQ(expected.size(), found.size());
    for (auto const& [step, loss] : expected)
        EXPECT_NEAR(found.at(step), loss, tolerance * std::max(1.0, std::abs(loss)))
            << "step " << step;
}

} // namespace evener::system_test
