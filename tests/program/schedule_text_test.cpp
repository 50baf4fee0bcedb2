// SPDX-License-Identifier: Apache-2.0
#include "program/placement.hpp"
#include "program/schedule_text.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace evener::program {
namespace {

std::string errors(std::string_view text) {
    try {
        parse_schedule(text, "s.csv");
        return "";
    } catch (core::ConfigError const& error) {
        return error.what();
    }
}

TEST(ScheduleText, ReadsCellsHoweverTheyAreSeparated) {
    auto const parsed = parse_schedule("\xef\xbb\xbf# schedule zb-v\r\nF0.0, B0.0;W0.0\tF10.12\r\n"
                                       "\n  \n# a note\n,\n,,BW1.2 ,\n",
                                       "s.csv");
    EXPECT_EQ(parsed.schedule.name, "zb-v");
    ASSERT_EQ(parsed.schedule.ranks.size(), 3u);
    EXPECT_EQ(print_schedule(parsed.schedule),
              "# schedule zb-v\nF0.0,B0.0,W0.0,F10.12\n,\nBW1.2\n");
    EXPECT_EQ(parsed.lines, (std::vector<int>{2, 6, 7}));
    EXPECT_EQ(parsed.places[0][1].line, 2);
    EXPECT_EQ(parsed.places[0][1].column, 7);
    EXPECT_EQ(parsed.places[2][0].column, 3);
    EXPECT_EQ(parse_schedule("F0.0", "s.csv").schedule.name, "file");
}

TEST(ScheduleText, NamesThePlaceOfWhatIsNoCell) {
    EXPECT_EQ(errors("F0.0,G0.1\nF1.0,F1\n"),
              "s.csv:1:6: error: 'G0.1' is no cell of a schedule; write F, B, W or BW, the chunk, "
              "a dot and the microbatch, such as F0.3\n"
              "s.csv:2:6: error: 'F1' is no cell of a schedule; write F, B, W or BW, the chunk, a "
              "dot and the microbatch, such as F0.3");
    EXPECT_EQ(errors("# nothing\n\n"), "s.csv: error: the schedule has no rows; write one row of "
                                       "cells, such as F0.0,BW0.0, for each rank");
    for (char const* const bad : {"F-1.0", "F0.-0", "F0.0x", "F 0.0", "F0..0", "f0.0", "WB0.0",
                                  "F0.9999999999", "F+1.0", "F", "B.", "BW"})
        EXPECT_NE(errors(bad), "") << bad;
    std::string many;
    for (int i = 0; i < 50; ++i)
        many += "x,";
    EXPECT_EQ(std::ranges::count(errors(many), '\n'), 19);
}

TEST(ScheduleText, ReadsBackWhatItPrints) {
    for (std::uint64_t const seed : support::seeds("program/schedule_text", 500)) {
        support::Random random{seed};
        Schedule schedule{.name = "random", .ranks = {}};
        schedule.ranks.resize(1 + random.index(5));
        for (auto& order : schedule.ranks)
            for (std::int64_t i = random.integer(0, 20); i > 0; --i)
                order.push_back({static_cast<WorkKind>(random.integer(0, 3)),
                                 core::ChunkId{random.integer(0, 2000)},
                                 core::MicrobatchId{random.integer(0, 999'999'999)}});
        EXPECT_EQ(parse_schedule(print_schedule(schedule), "s.csv").schedule, schedule);
    }
}

// Whatever bytes stand in the file: a schedule or an error with its place.
TEST(ScheduleText, SurvivesAnyBytes) {
    std::string const alphabet = "FBW0123456789.,; \t\r\n#-\xff";
    for (std::uint64_t const seed : support::seeds("program/schedule_bytes", 5000)) {
        support::Random random{seed};
        std::string text;
        for (std::int64_t i = random.integer(0, 60); i > 0; --i)
            text += alphabet[random.index(alphabet.size())];
        try {
            auto const parsed = parse_schedule(text, "s.csv");
            EXPECT_EQ(parse_schedule(print_schedule(parsed.schedule), "s.csv").schedule.ranks,
                      parsed.schedule.ranks);
        } catch (core::ConfigError const& error) {
            EXPECT_EQ(std::string{error.what()}.substr(0, 5), "s.csv");
        }
    }
}

std::vector<std::int32_t> groups_of(std::vector<Chunk> const& chunks) {
    std::vector<std::int32_t> groups;
    for (Chunk const& chunk : chunks)
        groups.push_back(chunk.group.value);
    return groups;
}

TEST(Placement, GoesInTurnsOrInAV) {
    using Ints = std::vector<std::int32_t>;
    EXPECT_EQ(groups_of(place(Placement::round_robin, {3, 3, 3}, 2)), (Ints{0, 1, 2, 0, 1, 2}));
    EXPECT_EQ(groups_of(place(Placement::v, {3, 3, 3}, 3)), (Ints{0, 1, 2, 2, 1, 0, 0, 1, 2}));
}

// The example in placement.hpp.
TEST(Placement, CutsTheLayersOfEachGroupEvenly) {
    auto const turns = place(Placement::round_robin, {8, 6}, 2);
    EXPECT_EQ(turns[0].layers, (core::Range{0, 4}));
    EXPECT_EQ(turns[1].layers, (core::Range{4, 7}));
    EXPECT_EQ(turns[3].layers, (core::Range{11, 14}));
    auto const v = place(Placement::v, {7, 6}, 2);
    EXPECT_EQ(v[0].layers, (core::Range{0, 4}));
    EXPECT_EQ(v[3].layers, (core::Range{10, 13}));
    Plan plan;
    plan.groups.resize(2);
    plan.chunks = v;
    EXPECT_TRUE(is_placed(plan, Placement::v, 2));
    EXPECT_FALSE(is_placed(plan, Placement::round_robin, 2));
    plan.chunks[0].layers.end = plan.chunks[1].layers.begin = 3;
    plan.chunks[3].layers.begin = plan.chunks[2].layers.end = 9;
    EXPECT_FALSE(is_placed(plan, Placement::v, 2));
}

} // namespace
} // namespace evener::program
