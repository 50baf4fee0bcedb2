// SPDX-License-Identifier: Apache-2.0

// What `--version` and the plug-in check stand on.

#include "core/build_info.hpp"
#include "kernels/build_id.hpp" // must agree with the one above, else this does not compile

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace evener::core {
namespace {

TEST(BuildInfo, IsFilledIn) {
    EXPECT_THAT(std::string{EVENER_BUILD_ID}, testing::MatchesRegex("[0-9a-f]+"));
    EXPECT_EQ(std::string{EVENER_BUILD_ID}.size(), 16u);
    EXPECT_THAT(version, testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
    EXPECT_STRNE(compiler, " ");
    EXPECT_STRNE(build_type, "");
    EXPECT_STRNE(commit(), "");
}

} // namespace
} // namespace evener::core
