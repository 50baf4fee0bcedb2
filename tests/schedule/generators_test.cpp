// SPDX-License-Identifier: Apache-2.0
#include "schedule/generators.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace evener::schedule {
namespace {

using program::Plan;
using program::ProgramKind;
using program::WorkKind;

/// p groups of one rank, m microbatches of one sequence.
Plan chain(std::int64_t p, std::int64_t m, std::string const& name) {
    Plan plan;
    for (std::int64_t g = 0; g < p; ++g) {
        plan.groups.push_back({.ranks = {core::RankId{g}}, .shares = {1}, .shard_weights = {1}});
        plan.chunks.push_back({core::GroupId{g}, {g, g + 1}});
    }
    plan.batch_size = m;
    plan.schedule = name;
    return plan;
}

std::string text(std::vector<program::Work> const& order) {
    std::string result;
    for (program::Work const& work : order)
        result += (result.empty() ? "" : " ") + to_string(work);
    return result;
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

TEST(OneForwardOneBackward, WritesTheTextbookOrder) {
    auto const schedule = generate(chain(3, 4, "1f1b"), ProgramKind::train);
    EXPECT_EQ(text(schedule.ranks[0]), "F0.0 F0.1 F0.2 BW0.0 F0.3 BW0.1 BW0.2 BW0.3");
    EXPECT_EQ(text(schedule.ranks[1]), "F1.0 F1.1 BW1.0 F1.2 BW1.1 F1.3 BW1.2 BW1.3");
    EXPECT_EQ(text(schedule.ranks[2]), "F2.0 BW2.0 F2.1 BW2.1 F2.2 BW2.2 F2.3 BW2.3");
}

// Peak activations of rank r: min(p - r, m) under 1F1B, m under GPipe.
TEST(Schedules, HoldAsManyMicrobatchesAsTheirFormulaSays) {
    for (std::int64_t p = 1; p <= 8; ++p)
        for (std::int64_t m = 1; m <= 2 * p; ++m)
            for (std::int64_t r = 0; r < p; ++r) {
                auto const rank = static_cast<std::size_t>(r);
                EXPECT_EQ(peak(generate(chain(p, m, "1f1b"), ProgramKind::train).ranks[rank]),
                          std::min(p - r, m));
                EXPECT_EQ(peak(generate(chain(p, m, "gpipe"), ProgramKind::train).ranks[rank]), m);
            }
}

TEST(Schedules, SplitTheBackwardWhenThePlanSaysSo) {
    Plan plan = chain(2, 2, "1f1b");
    plan.split_backward = true;
    auto const schedule = generate(plan, ProgramKind::train);
    EXPECT_EQ(text(schedule.ranks[1]), "F1.0 B1.0 W1.0 F1.1 B1.1 W1.1");
}

// Two ranks to which microbatches are dealt count for two stages in front of one.
TEST(OneForwardOneBackward, HoldsMoreInFrontOfADealtGroup) {
    Plan plan = chain(2, 8, "1f1b");
    plan.groups[1] = {.ranks = {core::RankId{1}, core::RankId{2}},
                      .shares = {1, 1},
                      .shard_weights = {1, 1},
                      .dispatch = program::Dispatch::dealt};
    auto const schedule = generate(plan, ProgramKind::train);
    EXPECT_EQ(peak(schedule.ranks[0]), 3);
    EXPECT_EQ(text(schedule.ranks[1]), "F1.0 BW1.0 F1.2 BW1.2 F1.4 BW1.4 F1.6 BW1.6");
    EXPECT_EQ(text(schedule.ranks[2]), "F1.1 BW1.1 F1.3 BW1.3 F1.5 BW1.5 F1.7 BW1.7");
}

TEST(Schedules, RefuseANameThatIsNotKnown) {
    EXPECT_THROW(generate(chain(1, 1, "2f2b"), ProgramKind::train), core::ConfigError);
}

} // namespace
} // namespace evener::schedule
