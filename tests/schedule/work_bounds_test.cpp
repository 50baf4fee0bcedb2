// SPDX-License-Identifier: Apache-2.0
#include "schedule/greedy.hpp"
#include "schedule/random_graph.hpp"
#include "schedule/sites.hpp"
#include "schedule/work_bounds.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

namespace evener::schedule {
namespace {

TEST(LowerBound, NeverExceedsASchedule) {
    GraphShape const shape{
        .max_ranks = 6, .max_microbatches = 8, .max_chunks = 3, .several_ranks = true};
    int met = 0;
    for (std::uint64_t const seed : support::seeds("lower_bound", 1000)) {
        SCOPED_TRACE(seed);
        support::Random random{seed};
        WorkGraph const graph = random_graph(random, shape).graph;
        double const least = lower_bound(graph);
        double const found = evaluate(graph, greedy(graph, {.work_budget = 3000})).seconds;
        EXPECT_LE(least, found * (1 + 1e-9));
        EXPECT_GT(least, 0.1 * found);
        met += least > found * (1 - 1e-9);
    }
    EXPECT_GT(met, 0);
}

// (p - 1) (tF + tB - tW) + m T is the time of ZB-H1, and the least within the memory of p.
TEST(LowerBound, IsTheZeroBubbleTimeOfEqualRanks) {
    Sites const sites{.ranks = 4, .microbatches = 8, .memory = 4};
    EXPECT_DOUBLE_EQ(lower_bound(sites_graph(sites, sites_plan(sites, ""))), 27);
    EXPECT_DOUBLE_EQ(lower_bound(sites_graph(sites, sites_plan(sites, "", true))), 25.5);
}

// One microbatch in memory at a time: a round trip of 4 s and rank 0's weight half for each.
TEST(LowerBound, KnowsMemory) {
    Sites const sites{.ranks = 2, .microbatches = 5, .memory = 1};
    EXPECT_DOUBLE_EQ(lower_bound(sites_graph(sites, sites_plan(sites, ""))), 25);
}

// Five messages of 10 s over one wire, a forward of 1 s before; then rank 1 and the way back.
TEST(LowerBound, KnowsWires) {
    Sites const sites{.ranks = 2, .microbatches = 5, .latency = 1, .occupancy = 10};
    EXPECT_DOUBLE_EQ(lower_bound(sites_graph(sites, sites_plan(sites, ""))),
                     1 + 50 + 1 + 2 + 11 + 2);
}

TEST(PreemptiveBound, InterruptsForLongerTails) {
    std::vector<Job> jobs{{0, 4, 1}, {1, 2, 9}};
    EXPECT_DOUBLE_EQ(preemptive_bound(jobs), 12); // 1..3, then its tail
    jobs = {{5, 1, 0}, {0, 2, 0}};
    EXPECT_DOUBLE_EQ(preemptive_bound(jobs), 6);
}

} // namespace
} // namespace evener::schedule
