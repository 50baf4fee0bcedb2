// SPDX-License-Identifier: Apache-2.0
#include "schedule/generators.hpp"
#include "schedule/work_graph.hpp"

#include <gtest/gtest.h>

namespace evener::schedule {
namespace {

using core::RankId;
using program::Plan;
using program::ProgramKind;
using program::WorkKind;

/// p groups of one rank, m microbatches of one sequence.
Plan chain(std::int64_t p, std::int64_t m, std::string const& name) {
    Plan plan;
    for (std::int64_t g = 0; g < p; ++g) {
        plan.groups.push_back({.ranks = {RankId{g}}, .shares = {1}, .shard_weights = {1}});
        plan.chunks.push_back({core::GroupId{g}, {g, g + 1}});
    }
    plan.batch_size = m;
    plan.schedule = name;
    return plan;
}

program::Costs unit_costs(Plan const& plan) {
    return program::uniform_costs(plan, {1, 1, 1, 2});
}

TEST(Evaluate, GivesTheTextbookTimeAndPeakOf1F1B) {
    Plan const plan = chain(4, 8, "1f1b");
    Evaluation const run =
        evaluate(make_work_graph(plan, unit_costs(plan), 0), generate(plan, ProgramKind::train));
    EXPECT_DOUBLE_EQ(run.seconds, 33);
    for (std::int64_t r = 0; r < 4; ++r) {
        EXPECT_DOUBLE_EQ(run.peak_bytes[static_cast<std::size_t>(r)], static_cast<double>(4 - r));
        EXPECT_DOUBLE_EQ(run.busy_seconds[static_cast<std::size_t>(r)], 24);
        EXPECT_DOUBLE_EQ(run.bubble(RankId{r}), static_cast<double>(3 * (3 - r)));
    }
}

// Two messages of 3 s that are ready at 1 and 2 s on one wire with 0.5 s of latency: they leave at
// 1 and 4 s and arrive at 4.5 and 7.5 s.
TEST(Evaluate, LetsMessagesQueueForTheirWire) {
    Plan const plan = chain(2, 2, "gpipe");
    program::Costs costs = unit_costs(plan);
    costs.network = program::uniform_network(2, {0.5, 3});
    Evaluation const run =
        evaluate(make_work_graph(plan, costs, 1), generate(plan, ProgramKind::train));
    EXPECT_EQ(run.spans[1][0], (program::Span{4.5, 5.5}));
    EXPECT_EQ(run.spans[1][1], (program::Span{7.5, 8.5}));
}

TEST(Evaluate, SharesAnUplinkBetweenPairs) {
    // Ranks 0 and 1 halve every microbatch and send over one wire to rank 2.
    Plan plan = chain(2, 1, "gpipe");
    plan.groups[0] = {.ranks = {RankId{0}, RankId{1}}, .shares = {1, 1}, .shard_weights = {1, 1}};
    plan.groups[1].ranks = {RankId{2}};
    plan.microbatch_size = plan.batch_size = 2;
    program::Costs costs = unit_costs(plan);
    costs.network = program::free_network(3);
    costs.network.wires = {{0, 1}};
    costs.network.routes = {-1, -1, 0, -1, -1, 0, -1, -1, -1};
    Evaluation const run =
        evaluate(make_work_graph(plan, costs, 2), generate(plan, ProgramKind::train));
    EXPECT_EQ(run.spans[2][0], (program::Span{5, 6})); // 1 + 2 + 2
}

/// The message of evaluating a schedule that is wrong.
std::string refusal(program::Schedule const& schedule) {
    Plan const plan = chain(2, 2, "gpipe");
    try {
        evaluate(make_work_graph(plan, unit_costs(plan), 0), schedule);
    } catch (core::ConfigError const& error) {
        return error.what();
    }
    return "accepted";
}

TEST(Evaluate, NamesTheWorkThatIsWrong) {
    program::Schedule const good = generate(chain(2, 2, "gpipe"), ProgramKind::train);
    EXPECT_EQ(refusal(good), "accepted");

    program::Schedule repeated = good; // F0.0 F0.1 BW0.0 BW0.1
    repeated.ranks[0][1] = repeated.ranks[0][0];
    EXPECT_NE(refusal(repeated).find("F0.0 of rank 0 stands twice"), std::string::npos);

    program::Schedule early = good;
    std::swap(early.ranks[0][0], early.ranks[0][2]);
    EXPECT_NE(refusal(early).find("BW0.0 of rank 0 stands before its forward"), std::string::npos);

    program::Schedule missing = good;
    missing.ranks[1].pop_back();
    EXPECT_NE(refusal(missing).find("blocks"), std::string::npos); // rank 0 waits for it

    program::Schedule last = good;
    last.ranks[0].pop_back();
    EXPECT_NE(refusal(last).find("microbatch 1 of chunk 0"), std::string::npos);

    program::Schedule foreign = good;
    foreign.ranks[0][0].chunk = core::ChunkId{1};
    EXPECT_NE(refusal(foreign).find("is not this rank's work"), std::string::npos);
}

} // namespace
} // namespace evener::schedule
