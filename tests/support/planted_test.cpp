// SPDX-License-Identifier: Apache-2.0

// Negative controls of the test machinery: a fault on one rank or in memory must not pass unseen.

#include "support/paths.hpp"
#include "support/process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

namespace evener::support {
namespace {

using testing::HasSubstr;

bool sanitized() {
    char const* const text = std::getenv("EVENER_SANITIZED");
    return text && std::string_view{text} == "1";
}

TEST(Planted, AFailureOnOneRankFailsTheProgramAndNamesTheRank) {
    auto const result = run_process(under_mpirun(2, {program("planted_failure")}));
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.errors, HasSubstr("rank 1: Planted.FailsOnRankOne"));
    EXPECT_THAT(result.output, HasSubstr("Planted.FailsOnRankOne ("));
}

TEST(Planted, AProgramThatSkipsEverythingSaysSo) {
    auto const result = run_process(
        under_mpirun(2, {program("planted_failure"), "--gtest_filter=Planted.IsSkipped"}));
    EXPECT_EQ(result.exit_code, 77);
}

TEST(Planted, ALeakOfOursIsSeen) {
    if (!sanitized())
        GTEST_SKIP() << "needs the sanitizer build";
    auto const result = run_process({program("planted_leak")});
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.errors, HasSubstr("1234 byte(s) leaked"));
}

TEST(Planted, UndefinedBehaviourIsSeen) {
    if (!sanitized())
        GTEST_SKIP() << "needs the sanitizer build";
    auto const result = run_process({program("planted_leak"), "overflow"});
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.errors, HasSubstr("signed integer overflow"));
}

} // namespace
} // namespace evener::support
