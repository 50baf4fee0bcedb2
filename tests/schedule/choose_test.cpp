// SPDX-License-Identifier: Apache-2.0
#include "schedule/choose.hpp"
#include "schedule/generators.hpp"
#include "schedule/limits.hpp"
#include "schedule/random_graph.hpp"
#include "schedule/sites.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

namespace evener::schedule {
namespace {

ChooseOptions const quick{.greedy = {.work_budget = 5'000},
                          .improve = {.work_budget = 20'000},
                          .beam_work_budget = 100'000};

TEST(Choose, IsNeverSlowerThanAGeneratorThatFits) {
    GraphShape const shape{
        .max_ranks = 5, .max_microbatches = 8, .max_chunks = 2, .several_ranks = true};
    int fitting = 0;
    int too_large = 0;
    for (std::uint64_t const seed : support::seeds("choose", 500)) {
        SCOPED_TRACE(seed);
        support::Random random{seed};
        auto const [plan, graph] = random_graph(random, shape);
        Choice const choice = choose(plan, graph, quick);
        EXPECT_EQ(evaluate(graph, choice.schedule).seconds, choice.seconds);
        expect_within_limits(graph, choice.schedule);
        EXPECT_GE(choice.seconds, choice.lower_bound * (1 - 1e-9));
        for (bool const split : {false, true})
            for (std::string_view const name : generator_names()) {
                program::Plan named = plan;
                named.schedule = name;
                named.split_backward = split;
                if (!generator_problem(named, name).empty())
                    continue;
                Evaluation const run =
                    evaluate(graph, generate(named, program::ProgramKind::train));
                if (fits_memory(graph, run)) {
                    ++fitting;
                    EXPECT_LE(choice.seconds, run.seconds * (1 + 1e-12)) << name;
                } else {
                    ++too_large;
                }
            }
    }
    EXPECT_GT(fitting, 10);
    EXPECT_GT(too_large, 10);
}

TEST(Choose, SaysWhatItTried) {
    Sites const sites{.ranks = 4, .microbatches = 8, .memory = 4};
    program::Plan const plan = sites_plan(sites, "auto", true);
    Choice const choice = choose(plan, sites_graph(sites, plan));
    EXPECT_EQ(choice.schedule.name, "auto");
    EXPECT_DOUBLE_EQ(choice.seconds, 25.5); // ZB-V's time, which is the least
    EXPECT_DOUBLE_EQ(choice.lower_bound, 25.5);
    auto const find = [&](std::string const& name) {
        for (Candidate const& candidate : choice.candidates)
            if (candidate.name == name)
                return candidate;
        ADD_FAILURE() << name;
        return Candidate{};
    };
    EXPECT_NE(find("1f1b").problem.find("one chunk in each group"), std::string::npos);
    EXPECT_TRUE(find("zb-v").fits);
    EXPECT_DOUBLE_EQ(find("zb-v").seconds, 25.5);
    EXPECT_DOUBLE_EQ(find("zb-v").peak_bytes[0], 4);
    EXPECT_FALSE(find("gpipe").fits);
    EXPECT_DOUBLE_EQ(find("gpipe").peak_bytes[0], 8);
    EXPECT_TRUE(find("greedy").fits);
    EXPECT_EQ(choice.candidates[choice.chosen].seconds, choice.seconds);
}

} // namespace
} // namespace evener::schedule
