// SPDX-License-Identifier: Apache-2.0
// A plan in the words of a job, printed and read again, is the same plan.
#include "job/parse.hpp"
#include "job/print.hpp"
#include "runtime/plan_conversion.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <map>

namespace evener::runtime {
namespace {

/// Each lever on or off, by group and chunk.
void draw_levers(support::Random& random, program::Plan& plan) {
    for (program::Group& group : plan.groups) {
        group.offload = {random.chance(50), random.chance(50), random.chance(50)};
        group.own_memory.clear();
        for (std::size_t member = 0; member < group.ranks.size(); ++member)
            group.own_memory.push_back(random.chance(50));
    }
    bool const alike = random.chance(90);
    bool const recompute = random.chance(50);
    for (program::Chunk& chunk : plan.chunks)
        chunk.recompute = alike ? recompute : random.chance(50);
    plan.interleaved_updates = random.chance(50);
}

std::vector<bool> own_memory_of(program::Plan const& plan) {
    std::vector<bool> own(static_cast<std::size_t>(plan.rank_count()));
    for (program::Group const& group : plan.groups)
        for (std::size_t member = 0; member < group.ranks.size(); ++member)
            own[group.ranks[member].index()] = group.own_memory[member];
    return own;
}

TEST(PlanConversion, GivesBackEveryPlan) {
    auto const seeds = support::seeds("runtime/plan_conversion", 2000);
    std::map<std::string, int> forms;
    for (std::uint64_t const seed : seeds) {
        support::Random random{seed};
        program::Plan plan = random.chance(70) ? support::random_looped_case(random).plan
                                               : support::random_case(random).plan;
        draw_levers(random, plan);
        job::Job job;
        job.train.batch_size = plan.batch_size;
        job.train.microbatch_size = plan.microbatch_size;
        job.plan.placement = random.chance(50) ? job::Placement::v : job::Placement::round_robin;
        if (random.chance(20))
            job.plan.chunks = {{0, 1}}; // chunks listed: stay a list
        bool const listed = !job.plan.chunks.empty();
        job.plan = plan_words(plan, job.plan);
        job.plan = job::parse_plan_text(job::print_plan(job.plan), "plan.toml");
        EXPECT_EQ(plan_of(job, {}, own_memory_of(plan)), plan) << job::print_plan(job.plan);
        EXPECT_EQ(plan_words(plan, job.plan), job.plan);
        if (listed) {
            EXPECT_FALSE(job.plan.chunks.empty());
        }
        for (program::Chunk& chunk : plan.chunks)
            chunk.recompute = true; // all alike: a key of the plan says it
        if (!listed && job.plan.chunks.empty()) {
            EXPECT_TRUE(plan_words(plan, {}).chunks.empty());
            EXPECT_TRUE(plan_words(plan, {}).recompute);
        }
        ++forms[!job.plan.chunks.empty()                  ? "listed"
                : job.plan.chunks_per_group == 1          ? "single"
                : job.plan.placement == job::Placement::v ? "v"
                                                          : "turns"];
    }
    if (seeds.size() >= 100) { // fewer need not show all forms
        EXPECT_EQ(forms.size(), 4u);
    }
}

TEST(PlanConversion, CutsTheLayersOfAGroupIntoItsChunks) {
    job::Job job;
    job.plan = job::parse_plan_text("[plan]\nchunks_per_group = 2\nplacement = \"v\"\n"
                                    "schedule = \"zb-v\"\n"
                                    "[[plan.groups]]\nranks = [0]\nlayers = 5\n"
                                    "[[plan.groups]]\nranks = [1]\nlayers = 4\n",
                                    "plan.toml");
    job.precision.compute = job::Compute::float32;
    program::Plan const plan = plan_of(job, {});
    ASSERT_EQ(plan.chunks.size(), 4u);
    EXPECT_EQ(plan.schedule, "zb-v");
    EXPECT_EQ(plan.chunks[0], (program::Chunk{core::GroupId{0}, {0, 3}}));
    EXPECT_EQ(plan.chunks[1], (program::Chunk{core::GroupId{1}, {3, 5}}));
    EXPECT_EQ(plan.chunks[2], (program::Chunk{core::GroupId{1}, {5, 7}}));
    EXPECT_EQ(plan.chunks[3], (program::Chunk{core::GroupId{0}, {7, 9}}));
    EXPECT_EQ(plan_words(plan, job.plan).chunks_per_group, 2);
}

} // namespace
} // namespace evener::runtime
