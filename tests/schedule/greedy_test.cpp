// SPDX-License-Identifier: Apache-2.0
#include "schedule/greedy.hpp"
#include "schedule/limits.hpp"
#include "schedule/random_graph.hpp"
#include "schedule/sites.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

namespace evener::schedule {
namespace {

TEST(Greedy, KeepsMemoryLimitsAndNeverBlocks) {
    GraphShape const shape{
        .max_ranks = 6, .max_microbatches = 8, .max_chunks = 3, .several_ranks = true};
    for (std::uint64_t const seed : support::seeds("greedy_limits", 1000)) {
        SCOPED_TRACE(seed);
        support::Random random{seed};
        WorkGraph const graph = random_graph(random, shape).graph;
        expect_within_limits(graph, greedy(graph, {.work_budget = 2000}));
    }
}

// Each rule alone must be safe, whatever the search keeps in the end.
TEST(Greedy, IsSafeUnderAllRules) {
    GraphShape const shape{
        .max_ranks = 5, .max_microbatches = 7, .max_chunks = 4, .several_ranks = true};
    for (std::uint64_t const seed : support::seeds("greedy_rules", 2000)) {
        SCOPED_TRACE(seed);
        support::Random random{seed};
        WorkGraph const graph = random_graph(random, shape).graph;
        ListRules rules;
        rules.choice = static_cast<ListRules::Choice>(random.integer(0, 2));
        rules.weights = static_cast<ListRules::Weights>(random.integer(0, 2));
        rules.chunks = static_cast<ListRules::Chunks>(random.integer(0, 1));
        rules.run = random.integer(1, 5);
        rules.reserved = random.integer(1, 4);
        rules.patience = step(random, 4);
        if (random.chance(50))
            for (std::int64_t r = 0; r < graph.rank_count; ++r)
                rules.windows.push_back(random.integer(1, 4));
        expect_within_limits(graph, list_schedule(graph, rules));
    }
}

TEST(Greedy, IsTheSameEveryTime) {
    support::Random random{7};
    for (int i = 0; i < 5; ++i) {
        WorkGraph const graph = random_graph(random, {.max_chunks = 2}).graph;
        EXPECT_EQ(greedy(graph).ranks, greedy(graph).ranks);
    }
}

TEST(Greedy, SaysWhereMemoryIsTooSmall) {
    Sites const sites{.ranks = 4, .microbatches = 4, .memory = 0.5};
    try {
        greedy(sites_graph(sites, sites_plan(sites, "greedy")));
        FAIL() << "accepted";
    } catch (core::ConfigError const& error) {
        EXPECT_NE(std::string{error.what()}.find("microbatch 0 alone keeps 1 bytes there, the "
                                                 "limit is 0.5"),
                  std::string::npos)
            << error.what();
    }
}

// Equal ranks with T = 3 s of work per microbatch and a one-way latency of d in the middle need
// 2 d / T more microbatches upstream; then the latency only shows in the first and last way over.
TEST(Greedy, HidesLatencyByMoreMicrobatchesInFlight) {
    for (double const latency : {1.0, 4.0, 7.0}) {
        SCOPED_TRACE(latency);
        Sites const sites{.ranks = 4, .microbatches = 60, .latency = latency};
        WorkGraph const graph = sites_graph(sites, sites_plan(sites, "greedy"));
        auto const near = full_windows(sites_graph({.ranks = 4}, sites_plan({.ranks = 4}, "")));
        auto const far = full_windows(graph);
        EXPECT_EQ(near, (std::vector<std::int64_t>{3, 2, 2, 1}));
        EXPECT_EQ(far[0], static_cast<std::int64_t>(std::ceil((8 + 2 * latency) / 3)));
        EXPECT_EQ(far[3], near[3]);
        EXPECT_LE(evaluate(graph, greedy(graph)).seconds, 60 * 3 + 9 + 2 * latency);
    }
}

} // namespace
} // namespace evener::schedule
