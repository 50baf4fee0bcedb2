// SPDX-License-Identifier: Apache-2.0
#include "job/duration.hpp"

#include <gtest/gtest.h>

#include <string>

namespace evener::job {
namespace {

TEST(Duration, IsSecondsOrAClockOrDaysAndAClock) {
    EXPECT_EQ(parse_duration("1"), 1);
    EXPECT_EQ(parse_duration("5400"), 5400);
    EXPECT_EQ(parse_duration("1:30"), 90);
    EXPECT_EQ(parse_duration("90:00"), 5400);
    EXPECT_EQ(parse_duration("3:30:00"), 12'600);
    EXPECT_EQ(parse_duration("03:05:07"), 11'107);
    EXPECT_EQ(parse_duration("100:00:00"), 360'000);
    EXPECT_EQ(parse_duration("2-03:00:01"), 183'601);
    EXPECT_EQ(parse_duration("1000000000"), 1'000'000'000);
}

TEST(Duration, IsNothingElse) {
    for (char const* const text : {"",
                                   "0",
                                   "0:00",
                                   "-5",
                                   "+5",
                                   "1.5",
                                   "5s",
                                   "1h",
                                   " 5",
                                   "5 ",
                                   "1:",
                                   ":30",
                                   "1:3",
                                   "1:60",
                                   "1:60:00",
                                   "1:2:03",
                                   "1:00:00:00",
                                   "1-5",
                                   "1-24:00:00",
                                   "1-00:00",
                                   "-1:00:00",
                                   "1--1:00",
                                   "1000000001",
                                   "99999999999999999999",
                                   "20000-00:00:00",
                                   "x"})
        EXPECT_EQ(parse_duration(text), std::nullopt) << text;
}

} // namespace
} // namespace evener::job
