// SPDX-License-Identifier: Apache-2.0
#include "runtime/slow_ranks.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evener::runtime {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SlowRanks, AreFarFromTheirOwnPredictionWhereOthersAreNot) {
    // A slow machine that is predicted to be slow is none, nor is a prediction that is off for all.
    ComputePrediction const prediction{{1, 1, 4, 2}, "", 1.5};
    EXPECT_THAT(slow_ranks({{3, 15}, {3, 15}, {12, 15}, {6, 15}}, prediction), IsEmpty());
    EXPECT_THAT(slow_ranks({{3, 15}, {4.4, 15}, {12, 15}, {6, 15}}, prediction), IsEmpty());
    EXPECT_THAT(slow_ranks({{3, 15}, {4.6, 15}, {12, 15}, {6, 15}}, prediction), ElementsAre(1));
    EXPECT_THAT(slow_ranks({{3, 25}, {6, 25}, {24, 25}, {6, 25}}, prediction), ElementsAre(1, 2));
}

TEST(SlowRanks, LoseATenthOfTheStepAtLeast) {
    ComputePrediction const prediction{{1, 1, 1}, "", 1.5};
    EXPECT_THAT(slow_ranks({{1, 19}, {3, 19}, {1, 19}}, prediction), ElementsAre(1));
    EXPECT_THAT(slow_ranks({{1, 21}, {3, 21}, {1, 21}}, prediction), IsEmpty());
}

TEST(SlowRanks, OneOfTwoIsComparedWithTheOther) {
    EXPECT_THAT(slow_ranks({{1, 4}, {2, 4}}, {{1, 1}, "", 1.5}), ElementsAre(1));
    EXPECT_THAT(slow_ranks({{2, 4}, {1, 4}}, {{1, 1}, "", 1.5}), ElementsAre(0));
}

TEST(SlowRanks, ARankWithoutComputationsIsNeither) {
    EXPECT_THAT(slow_ranks({{1, 4}, {0.5, 4}, {1, 4}}, {{1, 0, 1}, "", 1.5}), IsEmpty());
    EXPECT_THAT(slow_ranks({{1, 4}, {2, 4}}, {{0, 1}, "", 1.5}), IsEmpty());
}

} // namespace
} // namespace evener::runtime
