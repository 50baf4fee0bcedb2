// SPDX-License-Identifier: Apache-2.0
#include "schedule/generators.hpp"
#include "schedule/schedule_file.hpp"
#include "schedule/work_graph.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include "textbook.hpp"
#include <gtest/gtest.h>

namespace evener::schedule {
namespace {

using program::Plan;
using textbook::chain;
using textbook::Placement;

std::string errors(Plan const& plan, std::string_view text) {
    try {
        read_schedule(text, "s.csv", plan);
        return "";
    } catch (core::ConfigError const& error) {
        return error.what();
    }
}

TEST(ScheduleFile, ReadsBackWhatEveryGeneratorWrites) {
    for (std::int64_t p = 1; p <= 4; ++p)
        for (std::int64_t m = 1; m <= 2 * p; ++m)
            for (std::string_view const name : generator_names())
                for (Placement const placement : {Placement::turns, Placement::v})
                    for (std::int64_t v = 1; v <= 3; ++v) {
                        Plan const plan = chain(p, m, std::string{name}, v, placement);
                        if (!generator_problem(plan, name).empty())
                            continue;
                        auto const schedule = generate(plan, program::ProgramKind::train);
                        EXPECT_EQ(read_schedule(print_schedule(schedule), "s.csv", plan), schedule);
                    }
}

TEST(ScheduleFile, MixesFusedAndSplitBackwards) {
    Plan const plan = chain(2, 2, "1f1b");
    EXPECT_EQ(errors(plan, "F0.0,F0.1,BW0.0,B0.1,W0.1\nF1.0,B1.0,F1.1,BW1.1,W1.0\n"), "");
}

TEST(ScheduleFile, NamesTheCellThatIsWrongAndItsPlace) {
    Plan const plan = chain(2, 2, "1f1b");
    std::string const good = "F1.0,BW1.0,F1.1,BW1.1\n";
    EXPECT_EQ(errors(plan, "F0.0,F0.1,BW0.0,BW0.1,F2.0\n" + good),
              "s.csv:1:23: error: 'F2.0' cannot stand here: there is no chunk 2 (the plan has 2); "
              "use 0 to 1");
    EXPECT_EQ(
        errors(plan, "F0.0,F0.1,BW0.0,BW0.1,F0.2\n" + good),
        "s.csv:1:23: error: 'F0.2' cannot stand here: there is no microbatch 2 (the batch has "
        "2); use 0 to 1");
    EXPECT_EQ(errors(plan, "F0.0,F0.1,BW0.0,BW0.1,F1.0\n" + good),
              "s.csv:1:23: error: 'F1.0' cannot stand here: rank 0 has no part of it (rank 1 has); "
              "put it into the right row");
    EXPECT_EQ(errors(plan, "F0.0,F0.1,BW0.0,BW0.1,F0.0\n" + good),
              "s.csv:1:23: error: 'F0.0' repeats work of rank 0 (see 1:1); remove one of them");
    EXPECT_EQ(errors(plan, "F0.0,F0.1,BW0.0,BW0.1,W0.0\n" + good),
              "s.csv:1:23: error: 'W0.0' repeats work of rank 0 (see 1:11); remove one of them");
    EXPECT_EQ(
        errors(plan, "F0.0,BW0.1,F0.1,BW0.0\n" + good),
        "s.csv:1:6: error: 'BW0.1' stands before 'F0.1' in the row of rank 0; move it behind");
    EXPECT_EQ(
        errors(plan, "F0.0,F0.1,W0.0,B0.0,BW0.1\n" + good),
        "s.csv:1:11: error: 'W0.0' stands before 'B0.0' in the row of rank 0; move it behind");
    EXPECT_EQ(errors(plan, "F0.0,F0.1,B0.0,BW0.1\n" + good),
              "s.csv:1:1: error: the row of rank 0 lacks 'W0.0'; add it");
    EXPECT_EQ(errors(plan, "F0.0,B0.0,W0.0\n" + good),
              "s.csv:1:1: error: the row of rank 0 lacks 'F0.1' and 'BW0.1', or 'B0.1' and 'W0.1'; "
              "add it");
    EXPECT_EQ(
        errors(plan, "F0.0,F0.1\n" + good),
        "s.csv:1:1: error: the row of rank 0 lacks 'BW0.0', or 'B0.0' and 'W0.0', and work of "
        "1 more of its microbatches; add it");
    std::string const rows = "s.csv:1:1: error: the schedule has 1 rows (the plan has 2 ranks); "
                             "write one row for each rank, a comma where it has no work\n";
    EXPECT_EQ(errors(plan, good).substr(0, rows.size()), rows);
}

TEST(ScheduleFile, ShowsTheRingWhenRanksWaitForEachOther) {
    Plan const plan = chain(2, 2, "1f1b");
    EXPECT_EQ(errors(plan, "F0.0,BW0.0,F0.1,BW0.1\nF1.0,F1.1,BW1.0,BW1.1\n"),
              "s.csv:1:6: error: the ranks wait for each other: 'BW0.0' of rank 0 (1:6) waits for "
              "'BW1.0' of rank 1 (2:11), 'F1.1' of rank 1 (2:6) waits for 'F0.1' of rank 0 (1:12); "
              "move one of them forward in its row");
    EXPECT_EQ(errors(chain(1, 1, "gpipe", 2), "F1.0,F0.0,BW1.0,BW0.0"),
              "s.csv:1:1: error: the ranks wait for each other: 'F1.0' of rank 0 (1:1) waits for "
              "'F0.0' of rank 0 (1:6); move one of them forward in its row");
}

// A file that is accepted runs, one that is refused does not: moved, repeated and lost cells.
TEST(ScheduleFile, IsAcceptedIfItRuns) {
    int accepted = 0;
    auto const seeds = support::seeds("schedule/file", 3000);
    for (std::uint64_t const seed : seeds) {
        support::Random random{seed};
        support::RandomCase const c = support::random_case(random);
        auto schedule = generate(c.plan, program::ProgramKind::train);
        for (int edits = 0; edits < 2; ++edits) {
            auto& order = schedule.ranks[random.index(schedule.ranks.size())];
            if (order.empty())
                continue;
            std::size_t const from = random.index(order.size());
            program::Work const work = order[from];
            if (!random.chance(5))
                order.erase(order.begin() + static_cast<std::ptrdiff_t>(from));
            if (!random.chance(5))
                order.insert(order.begin() +
                                 static_cast<std::ptrdiff_t>(random.index(order.size() + 1)),
                             work);
        }
        bool runs = true;
        try {
            evaluate(make_work_graph(c.plan, program::uniform_costs(c.plan, {1, 1, 1, 2}), 0),
                     schedule);
        } catch (core::ConfigError const&) {
            runs = false;
        }
        std::string const found = errors(c.plan, print_schedule(schedule));
        EXPECT_EQ(found.empty(), runs) << found << ", EVENER_TEST_SEED=" << seed;
        accepted += runs;
    }
    EXPECT_GT(accepted, static_cast<int>(seeds.size()) / 20);
    EXPECT_LT(accepted, static_cast<int>(seeds.size()) * 19 / 20);
}

} // namespace
} // namespace evener::schedule
