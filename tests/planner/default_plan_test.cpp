// SPDX-License-Identifier: Apache-2.0
#include "planner/default_plan.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

namespace evener::planner {
namespace {

double slowest(std::vector<double> const& costs, std::vector<double> const& speeds,
               std::vector<std::int64_t> const& ends) {
    double worst = 0;
    std::int64_t begin = 0;
    for (std::size_t g = 0; g < ends.size(); ++g) {
        double sum = 0;
        for (; begin < ends[g]; ++begin)
            sum += costs[static_cast<std::size_t>(begin)];
        worst = std::max(worst, sum / speeds[g]);
    }
    return worst;
}

TEST(SplitByCost, IsAsGoodAsTryingEverySplit) {
    for (std::uint64_t const seed : support::seeds("split by cost", 300)) {
        support::Random random{seed};
        std::vector<double> costs;
        std::vector<double> speeds;
        for (std::int64_t i = random.integer(1, 4); i > 0; --i)
            speeds.push_back(static_cast<double>(random.integer(1, 5)));
        for (std::int64_t i = random.integer(std::ssize(speeds), 8); i > 0; --i)
            costs.push_back(static_cast<double>(random.integer(0, 9)));
        auto const ends = split_by_cost(costs, speeds);
        ASSERT_EQ(ends.size(), speeds.size());
        EXPECT_EQ(ends.back(), std::ssize(costs));
        double best = 1e300;
        std::vector<std::int64_t> tried(speeds.size(), std::ssize(costs));
        std::function<void(std::size_t, std::int64_t)> const every = [&](std::size_t g,
                                                                         std::int64_t begin) {
            if (g + 1 == speeds.size()) {
                if (begin < std::ssize(costs))
                    best = std::min(best, slowest(costs, speeds, tried));
                return;
            }
            for (tried[g] = begin + 1; tried[g] < std::ssize(costs); ++tried[g])
                every(g + 1, tried[g]);
        };
        every(0, 0);
        EXPECT_DOUBLE_EQ(slowest(costs, speeds, ends), best);
        EXPECT_TRUE(std::is_sorted(ends.begin(), ends.end(), std::less_equal<>{}));
    }
}

TEST(DefaultPlan, IsPossibleForAnyNumberOfRanks) {
    model::ModelConfig config;
    config.decoder_layers = 3;
    model::Model const model{config};
    for (std::size_t ranks = 1; ranks <= 17; ++ranks) {
        DefaultPlanInput input{8, 2, {}, {}};
        for (std::size_t r = 0; r < ranks; ++r)
            input.rank_speeds.push_back(r % 3 == 0 ? 3.0 : 1.0);
        input.compute_types.assign(ranks, core::DType::float32);
        program::Plan const plan = default_plan(model, input);
        EXPECT_TRUE(program::plan_problems(plan, model).empty());
        EXPECT_EQ(plan.groups.size(), std::min<std::size_t>(ranks, 3));
        EXPECT_EQ(plan.rank_count(), static_cast<std::int64_t>(ranks));
    }
}

TEST(DefaultPlan, GivesAFasterRankMoreLayersAndAGroupOfMixedTypesFloat32) {
    model::ModelConfig config;
    config.decoder_layers = 8;
    model::Model const model{config};
    program::Plan const plan =
        default_plan(model, {8, 2, {3.0, 1.0}, {core::DType::bfloat16, core::DType::float32}});
    EXPECT_GT(plan.chunks[0].layers.size(), 2 * plan.chunks[1].layers.size());
    EXPECT_EQ(plan.groups[0].compute, core::DType::bfloat16);
    EXPECT_EQ(plan.groups[1].compute, core::DType::float32);
    EXPECT_EQ(plan.boundary_types, std::vector{core::DType::bfloat16});
}

} // namespace
} // namespace evener::planner
