// SPDX-License-Identifier: Apache-2.0
// Any plan trains the same model: random plans, run as users run them, against one rank. Gradients
// are compared at equal weights: each later step starts from the one-rank run's checkpoint.
#include "io/files.hpp"
#include "schedule/generators.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "system/parity_cases.hpp"
#include "system/runs.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

namespace evener::system_test {
namespace {

struct Coverage {
    int plans = 0, different_sizes = 0, zero_share = 0, dealt = 0, tied_across = 0, ragged = 0,
        edited = 0, in_a_v = 0;
    std::map<std::string, int> schedules;
    std::map<std::size_t, int> most_chunks; ///< of a group

    void add(ParityCase const& c) {
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

void run_case(std::uint64_t seed, ParityCase const& c) {
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
    EXPECT_TRUE(same_checkpoint(step_folder(folder / "several", parity_steps),
                                step_folder(folder / "again", parity_steps)));

    for (std::int64_t step = 1; step < parity_steps; ++step) {
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
        ParityCase const c = random_parity_case(seed);
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
