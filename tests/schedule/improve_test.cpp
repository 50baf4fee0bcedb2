// SPDX-License-Identifier: Apache-2.0
#include "schedule/critical_work.hpp"
#include "schedule/greedy.hpp"
#include "schedule/improve.hpp"
#include "schedule/limits.hpp"
#include "schedule/order_moves.hpp"
#include "schedule/random_graph.hpp"
#include "schedule/sites.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

namespace evener::schedule {
namespace {

using core::ChunkId;
using core::MicrobatchId;
using program::Work;
using program::WorkKind;

constexpr GraphShape shape{
    .max_ranks = 5, .max_microbatches = 7, .max_chunks = 3, .several_ranks = true};

TEST(Improve, IsNeverSlowerAndKeepsLimits) {
    for (std::uint64_t const seed : support::seeds("improve", 300)) {
        SCOPED_TRACE(seed);
        support::Random random{seed};
        WorkGraph const graph = random_graph(random, shape).graph;
        program::Schedule const start = list_schedule(graph, {});
        program::Schedule const end = improve(graph, start, {.work_budget = 30'000});
        EXPECT_LE(evaluate(graph, end).seconds, evaluate(graph, start).seconds);
        expect_within_limits(graph, end);
    }
}

TEST(Improve, DependsOnSeedAndBudgetAlone) {
    int different = 0;
    for (std::uint64_t const seed : support::seeds("improve_seed", 20)) {
        support::Random random{seed};
        WorkGraph const graph = random_graph(random, {.max_ranks = 4, .max_chunks = 2}).graph;
        program::Schedule const start = list_schedule(graph, {});
        auto const improved = [&](std::uint64_t own_seed) {
            return improve(graph, start, {.seed = own_seed, .work_budget = 30'000}).ranks;
        };
        EXPECT_EQ(improved(1), improved(1));
        different += improved(1) != improved(2);
    }
    EXPECT_GT(different, 0);
}

// Two equal ranks, four microbatches, no limits: 13 s is the least (a forward before rank 1 and all
// of its work). The start does every weight half at once and takes longer.
TEST(Improve, FindsTheOptimumOfASmallPipeline) {
    Sites const sites{.ranks = 2, .microbatches = 4};
    WorkGraph const graph = sites_graph(sites, sites_plan(sites, "improve"));
    program::Schedule const start =
        list_schedule(graph, {.weights = ListRules::Weights::fused, .windows = {1, 1}});
    EXPECT_GT(evaluate(graph, start).seconds, 13);
    EXPECT_DOUBLE_EQ(evaluate(graph, improve(graph, start)).seconds, 13);
}

TEST(Improve, StopsAtItsTime) {
    Sites const sites{.ranks = 4, .microbatches = 8, .latency = 1, .memory = 3};
    WorkGraph const graph = sites_graph(sites, sites_plan(sites, "improve"));
    program::Schedule const start = list_schedule(graph, {.windows = {1, 1, 1, 1}});
    EXPECT_EQ(improve(graph, start, {.seconds = 0}).ranks, start.ranks);
}

TEST(CriticalPath, ChainsWorkWithoutGapsBackToTheStart) {
    for (std::uint64_t const seed : support::seeds("critical", 300)) {
        SCOPED_TRACE(seed);
        support::Random random{seed};
        WorkGraph const graph = random_graph(random, shape).graph;
        program::Schedule const schedule = list_schedule(graph, {});
        Evaluation const run = evaluate(graph, schedule);
        std::vector<Place> const path = critical_path(graph, schedule, run);
        auto const span = [&](Place const& place) { return run.spans[place.rank][place.index]; };
        ASSERT_FALSE(path.empty());
        EXPECT_EQ(span(path.front()).end, run.seconds);
        EXPECT_EQ(span(path.back()).start, 0);
        for (std::size_t i = 0; i + 1 < path.size(); ++i) {
            EXPECT_LE(span(path[i + 1]).end, span(path[i]).start);
            if (path[i].waits_for_rank) {
                EXPECT_EQ(span(path[i + 1]).end, span(path[i]).start);
            }
        }
    }
}

Work work(WorkKind kind, std::int64_t microbatch) {
    return {kind, ChunkId{0}, MicrobatchId{microbatch}};
}

std::string text(std::vector<Work> const& order) {
    std::string result;
    for (Work const& piece : order)
        result += to_string(piece) + " ";
    return result;
}

TEST(OrderMoves, StopAtTheOtherWorkOfTheCell) {
    std::vector<Work> order{work(WorkKind::forward, 0), work(WorkKind::forward, 1),
                            work(WorkKind::backward_input, 0), work(WorkKind::backward_weight, 0),
                            work(WorkKind::backward, 1)};
    EXPECT_TRUE(OrderMoves::move(order, 2, 0));
    EXPECT_EQ(text(order), "F0.0 B0.0 F0.1 W0.0 BW0.1 ");
    EXPECT_FALSE(OrderMoves::move(order, 0, 3));
    EXPECT_TRUE(OrderMoves::move(order, 2, 4));
    EXPECT_EQ(text(order), "F0.0 B0.0 W0.0 F0.1 BW0.1 ");
    EXPECT_TRUE(OrderMoves::split(order, 4, 0));
    EXPECT_EQ(text(order), "F0.0 B0.0 W0.0 F0.1 B0.1 W0.1 ");
    EXPECT_TRUE(OrderMoves::fuse(order, 1));
    EXPECT_EQ(text(order), "F0.0 BW0.0 F0.1 B0.1 W0.1 ");
    EXPECT_FALSE(OrderMoves::fuse(order, 1));
    EXPECT_FALSE(OrderMoves::split(order, 3, 0));
}

TEST(OrderMoves, BringWeightHalvesForwardForMemory) {
    Sites const sites{.ranks = 2, .microbatches = 2, .memory = 1};
    WorkGraph const graph = sites_graph(sites, sites_plan(sites, "moves"));
    OrderMoves const moves{graph};
    std::vector<Work> order{work(WorkKind::forward, 0), work(WorkKind::backward_input, 0),
                            work(WorkKind::forward, 1), work(WorkKind::backward, 1),
                            work(WorkKind::backward_weight, 0)};
    EXPECT_TRUE(moves.fit_memory(core::RankId{0}, order));
    EXPECT_EQ(text(order), "F0.0 B0.0 W0.0 F0.1 BW0.1 ");
    std::swap(order[2], order[3]);
    std::swap(order[1], order[2]); // F0.1 before B0.0: nothing can be freed in time
    EXPECT_FALSE(moves.fit_memory(core::RankId{0}, order));
}

} // namespace
} // namespace evener::schedule
