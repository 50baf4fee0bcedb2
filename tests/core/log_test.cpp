// SPDX-License-Identifier: Apache-2.0

// The line format is what people search their logs for.

#include "core/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace evener::core::log {
namespace {

class Log : public testing::Test {
  protected:
    void TearDown() override { configure(0, Level::info); }

    template <class Action>
    static std::string printed(Action&& action) {
        testing::internal::CaptureStderr();
        action();
        return testing::internal::GetCapturedStderr();
    }
};

TEST_F(Log, ALineShowsTimeRankLevelAndText) {
    configure(3, Level::info);
    std::string const line = printed([] { rank(Level::info, "{} ranks in {} groups", 5, 2); });
    EXPECT_THAT(line,
                testing::MatchesRegex("\\[ +[0-9]+\\.[0-9]s\\] r03 info  5 ranks in 2 groups\n"));
}

TEST_F(Log, RootLinesComeFromRankZeroOnly) {
    configure(1, Level::info);
    EXPECT_EQ(printed([] { root(Level::error, "once"); }), "");
    configure(0, Level::info);
    EXPECT_THAT(printed([] { root(Level::error, "once"); }),
                testing::HasSubstr("r00 error once\n"));
}

TEST_F(Log, LevelsBelowTheLowestAreSilent) {
    configure(0, Level::warn);
    EXPECT_EQ(printed([] { rank(Level::info, "quiet"); }), "");
    EXPECT_THAT(printed([] { rank(Level::warn, "loud"); }), testing::HasSubstr("warn  loud\n"));
}

TEST_F(Log, BracesInTextAreNotFormatted) {
    EXPECT_THAT(printed([] { write(Level::info, "set {x} to %d"); }),
                testing::HasSubstr("set {x} to %d\n"));
}

} // namespace
} // namespace evener::core::log
