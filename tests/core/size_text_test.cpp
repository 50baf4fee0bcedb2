// SPDX-License-Identifier: Apache-2.0
#include "core/size_text.hpp"

#include <gtest/gtest.h>

namespace evener::core {
namespace {

TEST(SizeText, HasTheUnitThatFits) {
    EXPECT_EQ(size_text(0), "0 B");
    EXPECT_EQ(size_text(999), "999 B");
    EXPECT_EQ(size_text(1000), "1.000 kB");
    EXPECT_EQ(size_text(61'204), "61.20 kB");
    EXPECT_EQ(size_text(61'204, 3), "61.2 kB");
    EXPECT_EQ(size_text(123'456'789), "123.5 MB");
    EXPECT_EQ(size_text(123'456'789, 3), "123 MB");
    EXPECT_EQ(size_text(1'250'000'000), "1.250 GB");
    EXPECT_EQ(size_text(1'250'000'000'000), "1.250 TB");
    EXPECT_EQ(size_text(9'223'372'036'854'775'807), "9223372.0 TB");
}

TEST(SizeText, RoundsIntoTheNextUnit) {
    EXPECT_EQ(size_text(999'949), "999.9 kB");
    EXPECT_EQ(size_text(999'951), "1.000 MB");
    EXPECT_EQ(size_text(999'499, 3), "999 kB");
    EXPECT_EQ(size_text(999'501, 3), "1.00 MB");
    EXPECT_EQ(size_text(9'999'600), "10.00 MB");
    EXPECT_EQ(size_text(99'996'000), "100.0 MB");
    EXPECT_EQ(size_text(9'999'400), "9.999 MB");
}

TEST(SizeText, HasASignWhereMoreIsTakenThanThereIs) {
    EXPECT_EQ(size_text(-12'345), "-12.35 kB");
}

} // namespace
} // namespace evener::core
