// SPDX-License-Identifier: Apache-2.0
#include "program/buckets.hpp"
#include "program/plan.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace evener::program {
namespace {

using core::MicrobatchId;
using core::RankId;

using Parts = std::vector<std::int64_t>;

TEST(LargestRemainder, GivesWholePartsNearTheirWeights) {
    EXPECT_EQ(largest_remainder(4, {2, 1, 0}), (Parts{3, 1, 0}));
    EXPECT_EQ(largest_remainder(7, {1, 1, 1}), (Parts{3, 2, 2})); // ties: lower index first
    EXPECT_EQ(largest_remainder(0, {1, 2}), (Parts{0, 0}));
    EXPECT_EQ(largest_remainder(1, {0, 1e-9}), (Parts{0, 1}));
    EXPECT_EQ(largest_remainder(10, {3, 5, 2}), (Parts{3, 5, 2}));
}

TEST(LargestRemainder, AddsUpAndNeverMissesByOne) {
    for (std::uint64_t const seed : support::seeds("largest remainder", 1000)) {
        support::Random random{seed};
        std::vector<double> weights;
        for (std::int64_t i = random.integer(1, 9); i > 0; --i)
            weights.push_back(random.chance(30) ? 0 : static_cast<double>(random.integer(1, 1000)));
        weights[random.index(weights.size())] = 7;
        std::int64_t const total = random.integer(0, 500);
        double const sum = std::accumulate(weights.begin(), weights.end(), 0.0);
        Parts const parts = largest_remainder(total, weights);
        EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), std::int64_t{0}), total);
        for (std::size_t i = 0; i < parts.size(); ++i) {
            EXPECT_LT(std::abs(static_cast<double>(parts[i]) -
                               static_cast<double>(total) * weights[i] / sum),
                      1.0);
            if (weights[i] == 0) {
                EXPECT_EQ(parts[i], 0);
            }
        }
    }
}

TEST(Dealt, FollowsTheWeightsAtEveryLength) {
    std::vector<double> const weights{3, 0, 1};
    Parts counts(3);
    std::int64_t dealt = 0;
    for (std::int32_t const member : deal_by_weights(weights, 100)) {
        ++counts[static_cast<std::size_t>(member)];
        EXPECT_LE(std::abs(static_cast<double>(counts[0]) - 0.75 * static_cast<double>(++dealt)),
                  1);
    }
    EXPECT_EQ(counts, (Parts{75, 0, 25}));
}

// The example in plan.hpp.
TEST(Plan, CutsAMicrobatchBySharesAndDealsIt) {
    Plan plan;
    plan.batch_size = 12;
    plan.microbatch_size = 4;
    plan.groups.push_back({.ranks = {RankId{0}, RankId{1}, RankId{2}},
                           .shares = {2, 1, 0},
                           .shard_weights = {1, 1, 1}});
    plan.groups.push_back({.ranks = {RankId{3}, RankId{4}},
                           .shares = {1, 1},
                           .shard_weights = {1, 1},
                           .dispatch = Dispatch::dealt});
    MicrobatchId const second{1};
    EXPECT_EQ(sequences_of(plan, plan.groups[0], 0, second), (core::Range{4, 7}));
    EXPECT_EQ(sequences_of(plan, plan.groups[0], 1, second), (core::Range{7, 8}));
    EXPECT_TRUE(sequences_of(plan, plan.groups[0], 2, second).empty());
    EXPECT_TRUE(sequences_of(plan, plan.groups[1], 0, second).empty());
    EXPECT_EQ(sequences_of(plan, plan.groups[1], 1, second), (core::Range{4, 8}));
}

TEST(Plan, ReportsEveryProblem) {
    support::Random random{1};
    support::RandomCase const good = support::random_case(random);
    model::Model const model{good.config};
    EXPECT_TRUE(plan_problems(good.plan, model).empty());
    Plan bad = good.plan;
    bad.groups.front().shares.assign(bad.groups.front().ranks.size(), 0.0);
    bad.chunks.back().layers.end += 1;
    bad.groups.push_back({.ranks = {RankId{0}}, .shares = {1}, .shard_weights = {1}});
    EXPECT_GE(plan_problems(bad, model).size(), 4u);
}

TEST(Plan, OffloadsOnlyOnRanksWhoseDevicesHaveAMemoryOfTheirOwn) {
    Plan plan;
    plan.groups.push_back({.ranks = {RankId{1}, RankId{0}},
                           .shares = {1, 1},
                           .shard_weights = {1, 1},
                           .offload = {.optimizer = true},
                           .own_memory = {true, false}});
    EXPECT_EQ(offload_of(plan, RankId{1}), plan.groups[0].offload);
    EXPECT_FALSE(offload_of(plan, RankId{0}).any());
    model::Model const model{model::ModelConfig{}};
    plan.chunks.push_back({core::GroupId{0}, {0, model.layer_count()}});
    EXPECT_TRUE(plan_problems(plan, model).empty());
    plan.groups[0].own_memory = {true};
    EXPECT_EQ(plan_problems(plan, model),
              (std::vector<std::string>{
                  "group 0 says of 1 ranks whether their devices have a memory of their own (it "
                  "has 2); say it of each, or of none"}));
    plan.groups[0].own_memory.clear();
    EXPECT_TRUE(plan_problems(plan, model).empty());
    EXPECT_FALSE(offload_of(plan, RankId{1}).any());
}

TEST(Buckets, TileEveryParameterOnceByWholeRows) {
    for (std::uint64_t const seed : support::seeds("buckets", 500)) {
        support::Random random{seed};
        support::RandomCase const c = support::random_looped_case(random, 6);
        model::Model const model{c.config};
        std::vector<std::vector<bool>> owned(model.parameters().size());
        for (std::size_t p = 0; p < owned.size(); ++p)
            owned[p].resize(static_cast<std::size_t>(model.parameters()[p].rows));
        for (Bucket const& bucket : make_buckets(c.plan, model)) {
            EXPECT_FALSE(bucket.holders.empty());
            for (RankId const rank : bucket.members) {
                EXPECT_TRUE(bucket.holds(rank) || !bucket.shard_of(rank).empty());
                for (Slice const& slice : slices_of(bucket, bucket.shard_of(rank)))
                    for (std::int64_t row = slice.rows.begin; row < slice.rows.end; ++row) {
                        auto const place = static_cast<std::size_t>(row);
                        EXPECT_FALSE(owned[slice.parameter.index()][place]) << "owned twice";
                        owned[slice.parameter.index()][place] = true;
                    }
            }
        }
        for (auto const& rows : owned)
            EXPECT_EQ(std::count(rows.begin(), rows.end(), false), 0) << "owned by nobody";
    }
}

TEST(Buckets, GiveATiedWeightAcrossGroupsOneSetOfOwners) {
    model::ModelConfig config;
    config.tied_embeddings = true;
    model::Model const model{config};
    Plan plan;
    for (std::int64_t g = 0; g < 2; ++g)
        plan.groups.push_back({.ranks = {RankId{g}}, .shares = {1}, .shard_weights = {1}});
    plan.chunks = {{core::GroupId{0}, {0, 3}}, {core::GroupId{1}, {3, 6}}};
    plan.boundary_types = default_boundary_types(plan);
    auto const buckets = make_buckets(plan, model);
    ASSERT_EQ(buckets.size(), 3u);
    EXPECT_EQ(buckets[2].chunks, (std::vector{core::ChunkId{0}, core::ChunkId{1}}));
    EXPECT_EQ(buckets[2].holders, (std::vector{RankId{0}, RankId{1}}));
    EXPECT_EQ(buckets[2].shard_of(RankId{0}).size() + buckets[2].shard_of(RankId{1}).size(),
              config.vocabulary * config.hidden_size);
}

} // namespace
} // namespace evener::program
