// SPDX-License-Identifier: Apache-2.0
#include "runtime/status_line.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace evener::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

std::string text(StatusText const& line) {
    return {line.data(), line.size()};
}

StatusRecord record(int rank, Phase phase, std::string const& words = {}, bool told = false) {
    return {rank, "host" + std::to_string(rank / 2), 41, phase, "waits", words, 1.7e9, told};
}

TEST(StatusLine, IsReadBackAsItWasWritten) {
    std::string const line = text(first_status_line(123456, "node7", 1764509000.125));
    EXPECT_EQ(line.find('\n'), line.size() - 1);
    auto const read = parse_status_line(line);
    ASSERT_TRUE(read);
    EXPECT_EQ(read->rank, 123456);
    EXPECT_EQ(read->host, "node7");
    EXPECT_EQ(read->step, 0);
    EXPECT_EQ(read->phase, Phase::start);
    EXPECT_EQ(read->text, "");
    EXPECT_EQ(read->time, 1764509000.125);
    EXPECT_FALSE(read->told_to_end);
}

TEST(StatusLine, CutsALongHost) {
    auto const read =
        parse_status_line(text(first_status_line(0, "a-very-long-host-name.example.org", 0)));
    ASSERT_TRUE(read);
    EXPECT_EQ(read->host, "a-very-long-host-nam");
}

TEST(StatusLine, RefusesWhatIsNone) {
    std::string const line = text(first_status_line(3, "node", 1));
    EXPECT_FALSE(parse_status_line(""));
    EXPECT_FALSE(parse_status_line(line.substr(1)));
    EXPECT_FALSE(parse_status_line(line + " "));
    for (std::size_t const place : {StatusLayout::rank, StatusLayout::step + 9, StatusLayout::phase,
                                    StatusLayout::time, std::size_t{0}, line.size() - 1}) {
        std::string broken = line;
        broken[place] = 'x';
        EXPECT_FALSE(parse_status_line(broken)) << place;
    }
}

// Whatever the nodes: no two of them write to one page, and no two ranks to one byte.
TEST(StatusFile, GivesNodesPagesOfTheirOwn) {
    std::mt19937 random{7};
    for (int round = 0; round < 50; ++round) {
        std::vector<int> node_of(1 + random() % 60);
        int const nodes = 1 + static_cast<int>(random() % 5);
        for (int& node : node_of)
            node = static_cast<int>(random()) % nodes;
        StatusPlaces const places = status_places(node_of);
        std::string content(places.bytes, '\0');
        std::vector<int> page_of(places.bytes / StatusLayout::page, -1);
        for (std::size_t r = 0; r < node_of.size(); ++r) {
            std::string const line = text(first_status_line(static_cast<int>(r), "h", 1));
            std::size_t const at = places.offsets[r];
            ASSERT_LE(at + line.size(), places.bytes);
            EXPECT_EQ(content[at], '\0');
            content.replace(at, line.size(), line);
            for (std::size_t page = at / StatusLayout::page;
                 page <= (at + line.size() - 1) / StatusLayout::page; ++page) {
                EXPECT_TRUE(page_of[page] == -1 || page_of[page] == node_of[r]);
                page_of[page] = node_of[r];
            }
        }
        std::vector<StatusRecord> const read = parse_status(content);
        ASSERT_EQ(read.size(), node_of.size());
        for (std::size_t r = 0; r < read.size(); ++r)
            EXPECT_EQ(read[r].rank, static_cast<int>(r));
    }
}

TEST(StatusFile, LeavesOutDamagedLines) {
    StatusPlaces const places = status_places({0, 0, 0});
    std::string content(places.bytes, '\0');
    for (std::size_t r = 0; r < 3; ++r)
        content.replace(places.offsets[r], StatusLayout::width,
                        text(first_status_line(static_cast<int>(r), "h", 1)));
    content[places.offsets[1] + StatusLayout::phase] = '?';
    EXPECT_EQ(parse_status(content).size(), 2u);
    EXPECT_EQ(parse_status(content.substr(0, places.offsets[2] + 20)).size(), 1u);
    EXPECT_THAT(parse_status("some other file\n"), IsEmpty());
}

TEST(LastWords, AreThoseOfRanksThatDidNotEnd) {
    EXPECT_THAT(last_words({record(0, Phase::end), record(1, Phase::end)}), IsEmpty());
    EXPECT_THAT(last_words({}), IsEmpty());
    EXPECT_THAT(last_words({record(0, Phase::end), record(1, Phase::step, "receive peer=0")}),
                ElementsAre(StartsWith("rank 1 (host0) in step 41, waits for receive peer=0, ")));
}

TEST(LastWords, AreNoneWhereARankLeftWithAnErrorThatItPrinted) {
    EXPECT_THAT(last_words({record(0, Phase::failed), record(1, Phase::step)}), IsEmpty());
}

TEST(LastWords, StandTogetherWhereTheyAreTheSameAndTheCauseStandsFirst) {
    auto const lines = last_words({record(0, Phase::step, "send", true), record(1, Phase::save),
                                   record(2, Phase::step, "send", true),
                                   record(3, Phase::step, "send", true), record(4, Phase::end)});
    EXPECT_THAT(lines, ElementsAre(StartsWith("rank 1 (host0) saving step 41, since "),
                                   HasSubstr("ranks 0, 2, 3 (host0, host1) in step 41, waits for "
                                             "send, told to end, since ")));
}

} // namespace
} // namespace evener::runtime
