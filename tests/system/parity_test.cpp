// SPDX-License-Identifier: Apache-2.0
// Any plan trains the same model: random plans, run as users run them, against one rank. Gradients
// are compared at equal weights: each later step starts from the one-rank run's checkpoint.
#include "io/files.hpp"
#include "program/placement.hpp"
#include "program/schedule_text.hpp"
#include "schedule/generators.hpp"
#include "support/random_plan.hpp"
#include "support/random_schedule.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace evener::system_test {
namespace {

using support::Random;

constexpr std::int64_t steps = 5;
constexpr double tolerance = 1e-5;

struct Case {
    model::ModelConfig config;
    program::Plan plan;
    std::string orders;  ///< CSV of an edited schedule; empty = the plan's own
    bool masked = false; ///< some targets do not count
    bool clipped = false;
};

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

Case random_case(std::uint64_t seed) {
    Random random{seed};
    Case result;
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

double norm(std::vector<float> const& values) {
    double sum = 0;
    for (float const value : values)
        sum += static_cast<double>(value) * value;
    return std::sqrt(sum);
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
    ASSERT_EQ(static_cast<std::int64_t>(expected.size()), steps);
    ASSERT_EQ(expected.size(), found.size());
    for (auto const& [step, loss] : expected)
        EXPECT_NEAR(found.at(step), loss, tolerance * std::max(1.0, std::abs(loss)))
            << "step " << step;
}

struct Coverage {
    int plans = 0, different_sizes = 0, zero_share = 0, dealt = 0, tied_across = 0, ragged = 0,
        edited = 0, in_a_v = 0;
    std::map<std::string, int> schedules;
    std::map<std::size_t, int> most_chunks; ///< of a group

    void add(Case const& c) {
        ++plans;
        std::set<std::size_t> sizes;
        bool zero = false;
        bool deals = false;
        for (program::Group const& group : c.plan.groups) {
            sizes.insert(group.ranks.size());
            zero = zero || std::count(group.shares.begin(), group.shares.end(), 0.0) > 0;
            deals = deals || (group.dispatch == program::Dispatch::dealt && group.ranks.size() > 1);
        }
        different_sizes += sizes.size() > 1;
        zero_share += zero;
        dealt += deals;
        tied_across += c.config.tied_embeddings && c.plan.groups.size() > 1;
        ++schedules[c.plan.schedule];
        edited += !c.orders.empty();
        in_a_v += c.plan.groups.size() > 1 && schedule::generator_problem(c.plan, "zb-v").empty();
        std::map<core::GroupId, std::size_t> chunks;
        std::size_t most = 0;
        for (program::Chunk const& chunk : c.plan.chunks)
            most = std::max(most, ++chunks[chunk.group]);
        ++most_chunks[most];
        ragged += c.plan.batch_size % c.plan.microbatch_size != 0;
    }
};

job::Job job_of(Case const& c, std::filesystem::path const& tokens,
                std::filesystem::path const& out) {
    job::Job job = small_job(c.config, tokens, out, steps);
    job.data.ignore_token = c.masked ? 3 : -1;
    job.optimizer.clip_norm = c.clipped ? 0.3 : 0;
    return job;
}

void run_case(std::uint64_t seed, Case const& c) {
    SCOPED_TRACE(fmt::format("EVENER_TEST_SEED={}", seed));
    support::TemporaryFolder const folder{"parity"};
    auto const tokens = folder / "tokens.bin";
    write_tokens(tokens, c.config.vocabulary, 40 * c.config.sequence_length + 1, seed);

    job::Job alone = with_plan(job_of(c, tokens, folder / "one"),
                               one_rank(c.plan, 2 + 2 * c.config.decoder_layers));
    alone.checkpoint.every = 1;
    alone.checkpoint.keep = 100;
    alone.log.gradients = (folder / "one-gradients").string();
    auto const first = train(alone);
    ASSERT_EQ(first.exit_code, 0) << first.errors;

    job::Job several = with_plan(job_of(c, tokens, folder / "several"), c.plan);
    several.log.gradients = (folder / "several-gradients").string();
    if (!c.orders.empty()) {
        several.plan.schedule_file = (folder / "orders.csv").string();
        io::write_file_atomically(several.plan.schedule_file, c.orders);
    }
    TrainOptions options{.ranks = static_cast<int>(c.plan.rank_count()), .delay_seed = seed | 1};
    auto const second = train(several, options);
    ASSERT_EQ(second.exit_code, 0) << second.errors;
    expect_equal_losses(folder / "one", folder / "several");
    auto const gradients = [&](char const* name, std::int64_t step) {
        return tensors(step_folder(folder / name, step), "gradients");
    };
    expect_equal_gradients(gradients("one-gradients", 1), gradients("several-gradients", 1), 1);

    // The same plan twice: equal to the bit, whatever the timing.
    job::Job again = several;
    again.run.out = (folder / "again").string();
    again.log.gradients.clear();
    options.delay_seed = (seed ^ 0x5555) | 1;
    auto const third = train(again, options);
    ASSERT_EQ(third.exit_code, 0) << third.errors;
    EXPECT_TRUE(same_checkpoint(step_folder(folder / "several", steps),
                                step_folder(folder / "again", steps)));

    for (std::int64_t step = 1; step < steps; ++step) {
        job::Job one_step = several;
        one_step.run.out = (folder / fmt::format("from-{}", step)).string();
        one_step.train.steps = step + 1;
        one_step.checkpoint.resume = step_folder(folder / "one", step).string();
        auto const result = train(one_step, options);
        ASSERT_EQ(result.exit_code, 0) << result.errors;
        expect_equal_gradients(gradients("one-gradients", step + 1),
                               gradients("several-gradients", step + 1), step + 1);
    }
}

TEST(Parity, RandomPlansTrainTheModelThatOneRankTrains) {
    Coverage coverage;
    for (std::uint64_t const seed : support::seeds("parity", 200)) {
        Case const c = random_case(seed);
        coverage.add(c);
        run_case(seed, c);
        if (HasFatalFailure())
            return;
    }
    fmt::print("{} plans: {} with groups of different sizes, {} with a zero share, {} dealt, {} "
               "with tied weights across groups, {} with a ragged batch, {} in a V, {} with an "
               "edited schedule\n",
               coverage.plans, coverage.different_sizes, coverage.zero_share, coverage.dealt,
               coverage.tied_across, coverage.ragged, coverage.in_a_v, coverage.edited);
    for (auto const& [name, count] : coverage.schedules)
        fmt::print("{} {}, ", count, name);
    for (auto const& [chunks, count] : coverage.most_chunks)
        fmt::print("{} with {} chunks in a group, ", count, chunks);
    fmt::print("\n");
    if (coverage.plans < 20)
        return; // too few to speak of shares
    EXPECT_GE(coverage.different_sizes * 2, coverage.plans);
    EXPECT_GE(coverage.zero_share * 4, coverage.plans);
    EXPECT_GE(coverage.dealt * 4, coverage.plans);
    EXPECT_GE(coverage.tied_across * 5, coverage.plans);
    EXPECT_GE(coverage.schedules.size(), 5u);
    EXPECT_GE(coverage.most_chunks.size(), 2u);
    EXPECT_GT(coverage.in_a_v, 0);
    EXPECT_GT(coverage.edited, 0);
    EXPECT_GT(coverage.ragged, 0);
    if (coverage.plans < 200)
        return;
    for (std::string_view const name : schedule::generator_names())
        EXPECT_GE(coverage.schedules[std::string{name}], 5) << name;
    for (std::size_t chunks = 1; chunks <= 4; ++chunks)
        EXPECT_GE(coverage.most_chunks[chunks], 5) << chunks;
    EXPECT_GE(coverage.in_a_v, 10);
    EXPECT_GE(coverage.edited, 10);
}

} // namespace
} // namespace evener::system_test
