// SPDX-License-Identifier: Apache-2.0
#include "schedule/exact.hpp"
#include "schedule/greedy.hpp"
#include "schedule/improve.hpp"
#include "schedule/limits.hpp"
#include "schedule/random_graph.hpp"
#include "schedule/sites.hpp"
#include "support/sizes.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>

namespace evener::schedule {
namespace {

using program::Work;
using program::WorkKind;

/// All orders of one rank in which microbatches keep their order within each kind of work.
class RankOrders {
  public:
    RankOrders(WorkGraph const& graph, core::RankId rank) {
        std::map<std::int32_t, std::size_t> lanes;
        for (Cell const& cell : graph.cells)
            if (cell.rank == rank) {
                std::size_t const lane =
                    lanes.try_emplace(cell.chunk.value, lanes.size()).first->second;
                lanes_.resize(lanes.size());
                lanes_[lane].forwards.push_back(&cell);
            }
        extend();
    }

    std::vector<std::vector<Work>> all;

  private:
    /// What is left to do of a chunk.
    struct Lane {
        std::deque<Cell const*> forwards;
        std::deque<Cell const*> backwards;
        std::deque<Cell const*> weights;
    };

    /// Otherwise both halves in a row are as good.
    static bool gains_by_fusing(Cell const& cell) {
        return cell.kept_for_weights_bytes > 0 ||
               cell.seconds.backward < cell.seconds.backward_input + cell.seconds.backward_weight;
    }

    void extend() {
        bool done = true;
        for (std::size_t i = 0; i < lanes_.size(); ++i) {
            Lane const before = lanes_[i];
            auto const take = [&](std::deque<Cell const*> Lane::*from, WorkKind kind,
                                  std::deque<Cell const*> Lane::*to) {
                if ((before.*from).empty())
                    return;
                done = false;
                Cell const* const cell = (before.*from).front();
                (lanes_[i].*from).pop_front();
                if (to)
                    (lanes_[i].*to).push_back(cell);
                order_.push_back({kind, cell->chunk, cell->microbatch});
                extend();
                order_.pop_back();
                lanes_[i] = before;
            };
            take(&Lane::forwards, WorkKind::forward, &Lane::backwards);
            take(&Lane::backwards, WorkKind::backward_input, &Lane::weights);
            if (!before.backwards.empty() && gains_by_fusing(*before.backwards.front()))
                take(&Lane::backwards, WorkKind::backward, nullptr);
            take(&Lane::weights, WorkKind::backward_weight, nullptr);
        }
        if (done)
            all.push_back(order_);
    }

    std::vector<Lane> lanes_;
    std::vector<Work> order_;
};

/// Least time of all combinations of orders within the limits; negative if there are too many.
double enumerate(WorkGraph const& graph, double most) {
    std::vector<RankOrders> orders;
    double count = 1;
    for (std::int64_t r = 0; r < graph.rank_count; ++r) {
        orders.emplace_back(graph, core::RankId{r});
        count *= static_cast<double>(orders.back().all.size());
        if (count > most)
            return -1;
    }
    program::Schedule schedule;
    schedule.ranks.resize(orders.size());
    std::vector<std::size_t> choice(orders.size(), 0);
    double least = no_memory_limit;
    for (std::size_t r = 0; r < choice.size();) {
        for (std::size_t i = 0; i < choice.size(); ++i)
            schedule.ranks[i] = orders[i].all[choice[i]];
        try {
            Evaluation const run = evaluate(graph, schedule);
            if (fits_memory(graph, run))
                least = std::min(least, run.seconds);
        } catch (core::ConfigError const&) { // the orders block
        }
        for (r = 0; r < choice.size() && ++choice[r] == orders[r].all.size(); ++r)
            choice[r] = 0;
    }
    return least;
}

void expect_equal_to_enumeration(char const* name, int count, GraphShape const& shape) {
    int compared = 0;
    auto const seeds = support::seeds(name, count);
    for (std::uint64_t const seed : seeds) {
        SCOPED_TRACE(seed);
        support::Random random{seed};
        WorkGraph const graph = random_graph(random, shape).graph;
        double const least = enumerate(graph, 75'000);
        if (least < 0)
            continue;
        ++compared;
        Exact const found = exact(graph, {.work_budget = 0});
        EXPECT_TRUE(found.closed);
        EXPECT_NEAR(found.seconds, least, 1e-9 * least);
        EXPECT_NEAR(found.lower_bound, least, 1e-9 * least);
        EXPECT_EQ(evaluate(graph, found.schedule).seconds, found.seconds);
        expect_within_limits(graph, found.schedule);
    }
    if (seeds.size() >= 5) { // of one or two, all may be too large to enumerate
        EXPECT_GT(compared, 0);
    }
}

TEST(Exact, EqualsEnumerationOfTwoRanksAndThreeMicrobatches) {
    expect_equal_to_enumeration("enumerate_2_3", 200, {.max_ranks = 2, .max_microbatches = 3});
}

TEST(Exact, EqualsEnumerationOfThreeRanks) {
    expect_equal_to_enumeration("enumerate_3_3", 50, {.max_ranks = 3, .max_microbatches = 3});
}

TEST(Exact, EqualsEnumerationOfTwoChunks) {
    expect_equal_to_enumeration("enumerate_chunks", 30,
                                {.max_ranks = 2, .max_microbatches = 2, .max_chunks = 2});
}

// The heuristics against the optimum, on one chunk per rank and on two.
TEST(Exact, IsNearlyReachedByGreedyAndImprovement) {
    int closed = 0;
    int count = 0;
    double sum = 0;
    double worst = 0;
    for (std::uint64_t const seed : support::seeds("exact", 500)) {
        SCOPED_TRACE(seed);
        support::Random random{seed};
        GraphShape const shape =
            random.chance(75) ? GraphShape{.max_ranks = 4, .max_microbatches = 6}
                              : GraphShape{.max_ranks = 3, .max_microbatches = 4, .max_chunks = 2};
        WorkGraph const graph = random_graph(random, shape).graph;
        program::Schedule const found = improve(graph, greedy(graph), {.work_budget = 500'000});
        expect_within_limits(graph, found);
        Exact const best = exact(graph, {.work_budget = 50'000});
        expect_within_limits(graph, best.schedule);
        EXPECT_LE(best.lower_bound, best.seconds);
        ++count;
        closed += best.closed;
        if (!best.closed)
            fmt::print("seed {:#x} is open: {} of at least {} s\n", seed, best.seconds,
                       best.lower_bound);
        double const gap = evaluate(graph, found).seconds / best.seconds - 1;
        EXPECT_LE(gap, 0.10);
        sum += gap;
        worst = std::max(worst, gap);
    }
    fmt::print("{} of {} closed, mean gap {:.3f} %, worst {:.2f} %\n", closed, count,
               100 * sum / count, 100 * worst);
    EXPECT_LE(sum, 0.02 * count);
    EXPECT_GE(closed, 0.95 * count);
}

TEST(Exact, SaysWhatIsOpenWhenTimeIsUp) {
    Sites const sites{.ranks = 4, .microbatches = 6, .latency = 1, .occupancy = 0.75, .memory = 2};
    WorkGraph const graph = sites_graph(sites, sites_plan(sites, "exact", true));
    Exact const open = exact(graph, {.seconds = 0, .work_budget = 0});
    EXPECT_FALSE(open.closed);
    EXPECT_LT(open.lower_bound, open.seconds);
    EXPECT_EQ(evaluate(graph, open.schedule).seconds, open.seconds);
}

TEST(Exact, RefusesLargeGraphs) {
    Sites const sites{.ranks = 17, .microbatches = 2};
    EXPECT_THROW(exact(sites_graph(sites, sites_plan(sites, "exact"))), core::ConfigError);
}

TEST(BeamSearch, IsNeverSlowerAndKeepsLimits) {
    for (std::uint64_t const seed : support::seeds("beam", 200)) {
        SCOPED_TRACE(seed);
        support::Random random{seed};
        WorkGraph const graph =
            random_graph(random, {.max_chunks = 2, .several_ranks = true}).graph;
        program::Schedule const start = list_schedule(graph, {});
        program::Schedule const found = beam_search(graph, start, 500'000);
        EXPECT_LE(evaluate(graph, found).seconds, evaluate(graph, start).seconds);
        expect_within_limits(graph, found);
        EXPECT_EQ(beam_search(graph, start, 500'000).ranks, found.ranks);
    }
}

// Eight ranks on two sites with the memory of 1F1B: 57 s is the least, which list schedules miss.
TEST(BeamSearch, FindsTheOptimumOfEightRanks) {
    Sites const sites{.latency = 0.25, .occupancy = 0.25, .memory = 8};
    WorkGraph const graph = sites_graph(sites, sites_plan(sites, "beam"));
    program::Schedule const start = greedy(graph);
    EXPECT_GT(evaluate(graph, start).seconds, 57);
    EXPECT_DOUBLE_EQ(evaluate(graph, beam_search(graph, start)).seconds, 57);
}

TEST(BeamSearch, LeavesLargeGraphsAsTheyAre) {
    Sites const sites{.ranks = 8, .microbatches = 128};
    WorkGraph const graph = sites_graph(sites, sites_plan(sites, "beam"));
    program::Schedule const start = list_schedule(graph, {.windows = full_windows(graph)});
    EXPECT_EQ(beam_search(graph, start).ranks, start.ranks);
}

} // namespace
} // namespace evener::schedule
