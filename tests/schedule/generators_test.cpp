// SPDX-License-Identifier: Apache-2.0
#include "schedule/generators.hpp"

#include "textbook.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

namespace evener::schedule {
namespace {

using program::Plan;
using program::ProgramKind;
using program::WorkKind;
using textbook::chain;
using textbook::Placement;

std::string text(std::vector<program::Work> const& order) {
    std::string result;
    for (program::Work const& work : order)
        result += (result.empty() ? "" : " ") + to_string(work);
    return result;
}

void expect_orders(textbook::Orders const& expected, Plan const& plan) {
    auto const found = generate(plan, ProgramKind::train);
    EXPECT_EQ(found.name, plan.schedule);
    ASSERT_EQ(found.ranks.size(), expected.size());
    for (std::size_t r = 0; r < expected.size(); ++r)
        ASSERT_EQ(text(found.ranks[r]), text(expected[r]))
            << plan.schedule << ", " << plan.groups.size() << " groups, " << plan.batch_size
            << " microbatches, rank " << r;
}

TEST(OneForwardOneBackward, WritesTheOrderOfThePaper) {
    auto const schedule = generate(chain(3, 4, "1f1b"), ProgramKind::train);
    EXPECT_EQ(text(schedule.ranks[0]), "F0.0 F0.1 F0.2 BW0.0 F0.3 BW0.1 BW0.2 BW0.3");
    EXPECT_EQ(text(schedule.ranks[1]), "F1.0 F1.1 BW1.0 F1.2 BW1.1 F1.3 BW1.2 BW1.3");
    EXPECT_EQ(text(schedule.ranks[2]), "F2.0 BW2.0 F2.1 BW2.1 F2.2 BW2.2 F2.3 BW2.3");
}

TEST(Schedules, AreTheTextbooksForGroupsOfOneRank) {
    for (std::int64_t p = 1; p <= 8; ++p)
        for (std::int64_t m = 1; m <= 3 * p + 1; ++m) {
            expect_orders(textbook::gpipe(p, m), chain(p, m, "gpipe"));
            expect_orders(textbook::one_f_one_b(p, m), chain(p, m, "1f1b"));
            expect_orders(textbook::zb_h(p, m, 1), chain(p, m, "zb-h1"));
            expect_orders(textbook::zb_h(p, m, 2), chain(p, m, "zb-h2"));
            expect_orders(textbook::zb_v(p, m), chain(p, m, "zb-v", 2, Placement::v));
            for (std::int64_t v = 1; v <= 4; ++v) {
                expect_orders(textbook::breadth_first(p, m, v), chain(p, m, "breadth_first", v));
                if (m % p == 0)
                    expect_orders(textbook::interleaved(p, m, v), chain(p, m, "interleaved", v));
            }
        }
}

TEST(Schedules, LeaveOutTheMicrobatchesThatAreNotThere) {
    for (std::int64_t p = 2; p <= 5; ++p)
        for (std::int64_t m = 1; m <= 2 * p; ++m) {
            auto expected = textbook::interleaved(p, core::round_up(m, p), 2);
            for (auto& order : expected)
                std::erase_if(order, [&](auto const& work) { return work.microbatch.value >= m; });
            expect_orders(expected, chain(p, m, "interleaved", 2));
        }
}

TEST(OneForwardOneBackward, HoldsMoreInFlightInFrontOfASlowLink) {
    for (std::int64_t p = 2; p <= 6; ++p)
        for (std::int64_t cut = 1; cut < p; ++cut)
            for (std::int64_t extra = 0; extra <= 4; ++extra) {
                std::vector<std::int64_t> by_group(static_cast<std::size_t>(p));
                std::fill(by_group.begin(), by_group.begin() + cut, extra);
                auto const expected = textbook::one_f_one_b(p, 12, cut, extra);
                auto found = generate_one_f_one_b(chain(p, 12, "1f1b"), by_group);
                for (std::size_t r = 0; r < expected.size(); ++r)
                    ASSERT_EQ(text(found.ranks[r]), text(expected[r]));
                // What only the last group in front of the link holds, those before hold, too.
                std::fill(by_group.begin(), by_group.begin() + cut - 1, 0);
                found = generate_one_f_one_b(chain(p, 12, "1f1b"), by_group);
                auto const last = static_cast<std::size_t>(cut - 1);
                ASSERT_EQ(text(found.ranks[last]), text(expected[last]));
            }
}

TEST(Schedules, SplitTheBackwardWhenThePlanSaysSo) {
    Plan plan = chain(2, 2, "1f1b");
    plan.split_backward = true;
    EXPECT_EQ(text(generate(plan, ProgramKind::train).ranks[1]), "F1.0 B1.0 W1.0 F1.1 B1.1 W1.1");
    plan = chain(1, 2, "breadth_first", 2);
    plan.split_backward = true;
    EXPECT_EQ(text(generate(plan, ProgramKind::train).ranks[0]),
              "F0.0 F0.1 F1.0 F1.1 B1.1 W1.1 B1.0 W1.0 B0.1 W0.1 B0.0 W0.0");
}

TEST(GPipe, GoesBackChunkByChunkFromTheLast) {
    EXPECT_EQ(text(generate(chain(1, 2, "gpipe", 2), ProgramKind::train).ranks[0]),
              "F0.0 F0.1 F1.0 F1.1 BW1.0 BW1.1 BW0.0 BW0.1");
}

/// Most microbatches between Forward and Backward at once.
std::int64_t peak(std::vector<program::Work> const& order) {
    std::int64_t live = 0;
    std::int64_t most = 0;
    for (program::Work const& work : order) {
        live += work.kind == WorkKind::forward ? 1 : -1;
        most = std::max(most, live);
    }
    return most;
}

program::Group dealt_group(std::int64_t first, std::int64_t size) {
    program::Group group;
    for (std::int64_t r = first; r < first + size; ++r)
        group.ranks.emplace_back(r);
    group.shares.assign(static_cast<std::size_t>(size), 1);
    group.shard_weights = group.shares;
    group.dispatch = program::Dispatch::dealt;
    return group;
}

// Two ranks to which microbatches are dealt count for two stages in front of one.
TEST(OneForwardOneBackward, HoldsMoreInFrontOfADealtGroup) {
    Plan plan = chain(2, 8, "1f1b");
    plan.groups[1] = dealt_group(1, 2);
    auto const schedule = generate(plan, ProgramKind::train);
    EXPECT_EQ(peak(schedule.ranks[0]), 3);
    EXPECT_EQ(text(schedule.ranks[1]), "F1.0 BW1.0 F1.2 BW1.2 F1.4 BW1.4 F1.6 BW1.6");
    EXPECT_EQ(text(schedule.ranks[2]), "F1.1 BW1.1 F1.3 BW1.3 F1.5 BW1.5 F1.7 BW1.7");
}

// Behind two dealt ranks a stage delays weight gradients by two microbatches.
TEST(ZeroBubble, DelaysWeightGradientsByTheWidthsInFront) {
    Plan plan = chain(2, 6, "zb-h1");
    plan.groups[0] = dealt_group(0, 2);
    plan.groups[1].ranks = {core::RankId{2}};
    auto const schedule = generate(plan, ProgramKind::train);
    EXPECT_EQ(text(schedule.ranks[2]), "F1.0 B1.0 F1.1 B1.1 F1.2 B1.2 W1.0 F1.3 B1.3 W1.1 F1.4 "
                                       "B1.4 W1.2 F1.5 B1.5 W1.3 W1.4 W1.5");
    EXPECT_EQ(text(schedule.ranks[0]), "F0.0 F0.2 B0.0 W0.0 F0.4 B0.2 W0.2 B0.4 W0.4");
}

TEST(Dealt, GivesEachRankTheMicrobatchesOfAnExplicitDeal) {
    Plan plan = chain(2, 4, "1f1b");
    plan.groups[1] = dealt_group(1, 2);
    plan.groups[1].deal = {1, 1, 0, 1};
    auto const schedule = generate(plan, ProgramKind::train);
    EXPECT_EQ(text(schedule.ranks[1]), "F1.2 BW1.2");
    EXPECT_EQ(text(schedule.ranks[2]), "F1.0 F1.1 BW1.0 BW1.1 F1.3 BW1.3");
}

TEST(Evaluation, GoesForwardInRounds) {
    auto const schedule = generate(chain(2, 3, "1f1b", 2), ProgramKind::evaluate);
    EXPECT_EQ(text(schedule.ranks[0]), "F0.0 F0.1 F2.0 F2.1 F0.2 F2.2");
    EXPECT_EQ(text(generate(chain(2, 3, "zb-v", 2, Placement::v), ProgramKind::evaluate).ranks[1]),
              "F1.0 F1.1 F2.0 F2.1 F1.2 F2.2");
}

std::string problem(Plan const& plan) {
    try {
        generate(plan, ProgramKind::train);
        return "";
    } catch (core::ConfigError const& error) {
        return error.what();
    }
}

TEST(Schedules, SayWhatPlacementTheyNeed) {
    EXPECT_EQ(problem(chain(1, 1, "2f2b")),
              "error: schedule '2f2b' is not known; use one of \"gpipe\", \"1f1b\", "
              "\"interleaved\", \"breadth_first\", \"zb-h1\", \"zb-h2\", \"zb-v\"");
    EXPECT_EQ(problem(chain(2, 4, "zb-v")),
              "error: schedule 'zb-v' needs two chunks in each group, from the first group to the "
              "last and back (the plan has 2 chunks for 2 groups, on the groups 0 1); set "
              "'plan.chunks_per_group' to 2 and 'plan.placement' to \"v\", or choose another "
              "'plan.schedule'");
    EXPECT_EQ(problem(chain(2, 4, "1f1b", 2)),
              "error: schedule '1f1b' needs one chunk in each group (the plan has 4 chunks for 2 "
              "groups, on the groups 0 1 0 1); set 'plan.chunks_per_group' to 1, or choose another "
              "'plan.schedule'");
    EXPECT_EQ(problem(chain(2, 4, "interleaved", 2, Placement::v)),
              "error: schedule 'interleaved' needs the same number of chunks in each group, which "
              "take turns (the plan has 4 chunks for 2 groups, on the groups 0 1 1 0); set "
              "'plan.placement' to \"round_robin\" and leave out 'plan.chunks', or choose another "
              "'plan.schedule'");
    for (std::string_view const name : generator_names()) {
        bool const any = name == "gpipe" || name == "breadth_first";
        EXPECT_EQ(problem(chain(3, 4, std::string{name}, 3, Placement::v)).empty(), any) << name;
    }
}

} // namespace
} // namespace evener::schedule
