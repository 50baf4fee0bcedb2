// SPDX-License-Identifier: Apache-2.0

// bfloat16 is checked over all of its bit patterns; the rounding against the two neighbours, so the
// expected value does not come from the code under test.

#include "core/types.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>

namespace evener::core {
namespace {

constexpr std::uint32_t all_patterns = 1u << 16;
constexpr float infinity = std::numeric_limits<float>::infinity();

bool is_nan_pattern(std::uint32_t bits) {
    return (bits & 0x7f80u) == 0x7f80u && (bits & 0x7fu) != 0;
}

TEST(BFloat16, EveryPatternSurvivesTheWayToFloatAndBack) {
    for (std::uint32_t bits = 0; bits < all_patterns; ++bits) {
        auto const pattern = static_cast<std::uint16_t>(bits);
        float const value = to_float(pattern);
        if (is_nan_pattern(bits)) {
            ASSERT_TRUE(std::isnan(value)) << bits;
            // A signalling NaN becomes a quiet one with the same payload.
            ASSERT_EQ(to_bfloat16(value), pattern | 0x40u) << bits;
        } else {
            ASSERT_EQ(to_bfloat16(value), pattern) << bits;
        }
    }
}

// Of each two neighbours a < b (in magnitude): below the middle goes to a, above it to b, the
// middle to the one with an even last bit.
TEST(BFloat16, EveryMiddleRoundsToEvenAndItsSurroundingsToTheNearest) {
    for (std::uint32_t sign : {0u, 0x8000u}) {
        for (std::uint32_t bits = sign; bits < (sign | 0x7f80u); ++bits) {
            std::uint32_t const middle = (bits << 16) | 0x8000u;
            auto const rounded = [](std::uint32_t x) {
                return std::uint32_t{to_bfloat16(std::bit_cast<float>(x))};
            };
            ASSERT_EQ(rounded(middle), (bits & 1u) ? bits + 1 : bits) << bits;
            ASSERT_EQ(rounded(middle - 1), bits) << bits;
            ASSERT_EQ(rounded(middle + 1), bits + 1) << bits;
        }
    }
}

TEST(BFloat16, RoundingIsToTheNearestValue) {
    for (std::uint64_t const seed : support::seeds("bfloat16 rounding", 100)) {
        std::mt19937_64 random{seed};
        for (int i = 0; i < 1000; ++i) {
            auto const value = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
            std::uint16_t const rounded = to_bfloat16(value);
            if (std::isnan(value)) {
                ASSERT_TRUE(std::isnan(to_float(rounded)));
                continue;
            }
            if (std::isinf(to_float(rounded)))
                continue; // beyond the largest finite value; covered by the test above
            double const distance = std::abs(double{value} - double{to_float(rounded)});
            for (int const step : {-1, 1}) {
                float const other = to_float(static_cast<std::uint16_t>(rounded + step));
                if (std::isfinite(other)) {
                    ASSERT_LE(distance, std::abs(double{value} - double{other})) << value;
                }
            }
        }
    }
}

TEST(BFloat16, NanNeverBecomesInfinity) {
    // The payload is only in the bits that are cut off.
    for (std::uint32_t const bits : {0x7f800001u, 0x7f80ffffu, 0xff800001u, 0x7fffffffu})
        EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(bits))))) << bits;
}

TEST(BFloat16, LargeValuesOverflowToInfinityAndSmallOnesToZero) {
    EXPECT_EQ(to_float(to_bfloat16(std::numeric_limits<float>::max())), infinity);
    EXPECT_EQ(to_float(to_bfloat16(-std::numeric_limits<float>::max())), -infinity);
    EXPECT_EQ(to_float(to_bfloat16(infinity)), infinity);
    EXPECT_EQ(to_bfloat16(std::numeric_limits<float>::denorm_min()), 0u);
    EXPECT_EQ(to_bfloat16(-0.0f), 0x8000u);
}

TEST(DType, SizesAndNames) {
    EXPECT_EQ(bytes_of(DType::float32), 4);
    EXPECT_EQ(bytes_of(DType::bfloat16), 2);
    EXPECT_EQ(name_of(DType::float32), "float32");
    EXPECT_EQ(name_of(DType::bfloat16), "bfloat16");
}

TEST(Range, OverlapIsWhatBothHold) {
    EXPECT_EQ(overlap({0, 10}, {5, 20}), (Range{5, 10}));
    EXPECT_EQ(overlap({5, 20}, {0, 10}), (Range{5, 10}));
    EXPECT_EQ(overlap({0, 10}, {3, 4}), (Range{3, 4}));
    EXPECT_EQ(overlap({0, 5}, {5, 9}), (Range{0, 0}));
    EXPECT_EQ(overlap({7, 9}, {0, 5}), (Range{0, 0}));
    EXPECT_EQ(overlap({3, 3}, {0, 9}), (Range{0, 0}));
    EXPECT_TRUE((Range{4, 4}.empty()));
    EXPECT_EQ((Range{2, 9}.size()), 7);
}

TEST(Range, OverlapAgreesWithCountingElements) {
    for (std::int64_t a = 0; a < 6; ++a)
        for (std::int64_t b = a; b < 6; ++b)
            for (std::int64_t c = 0; c < 6; ++c)
                for (std::int64_t d = c; d < 6; ++d) {
                    std::int64_t both = 0;
                    for (std::int64_t x = 0; x < 6; ++x)
                        both += (a <= x && x < b && c <= x && x < d) ? 1 : 0;
                    ASSERT_EQ(overlap({a, b}, {c, d}).size(), both)
                        << a << ' ' << b << ' ' << c << ' ' << d;
                }
}

TEST(Division, RoundsUp) {
    EXPECT_EQ(div_up(0, 4), 0);
    EXPECT_EQ(div_up(1, 4), 1);
    EXPECT_EQ(div_up(4, 4), 1);
    EXPECT_EQ(div_up(5, 4), 2);
    EXPECT_EQ(round_up(65, 64), 128);
    EXPECT_EQ(round_up(64, 64), 64);
}

TEST(Narrow, KeepsValuesThatFitAndRefusesOthers) {
    EXPECT_EQ(narrow<std::int32_t>(std::int64_t{-5}), -5);
    EXPECT_EQ(narrow<std::uint8_t>(255), 255);
    EXPECT_EQ(narrow<int>(std::size_t{7}), 7);
    EXPECT_THROW(narrow<std::uint8_t>(256), ContractViolation);
    EXPECT_THROW(narrow<std::int32_t>(std::int64_t{1} << 31), ContractViolation);
    // Same bits, other sign: a round trip alone would not notice.
    EXPECT_THROW(narrow<std::uint32_t>(-1), ContractViolation);
    EXPECT_THROW(narrow<std::int32_t>(0xffffffffu), ContractViolation);
    EXPECT_THROW(narrow<std::int64_t>(std::numeric_limits<std::uint64_t>::max()),
                 ContractViolation);
}

} // namespace
} // namespace evener::core
