// SPDX-License-Identifier: Apache-2.0
#include "core/philox.hpp"
#include "core/random.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace evener::core {

// Known answers of the Random123 library (kat_vectors, philox4x32 with 10 rounds).
TEST(Philox, GivesTheKnownAnswersOfRandom123) {
    EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
              (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
    EXPECT_EQ(
        philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
        (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
    EXPECT_EQ(
        philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
        (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, IsUsableInConstantExpressions) {
    static_assert(philox4x32({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5);
    static_assert(uniform(1, 2, 3) >= 0.0 && uniform(1, 2, 3) < 1.0);
}

TEST(Random, DependsOnEveryBitOfItsAddress) {
    std::set<double> numbers{uniform(0, 0, 0)};
    for (int bit = 0; bit < 64; ++bit) {
        std::uint64_t const one = std::uint64_t{1} << bit;
        numbers.insert(uniform(one, 0, 0));
        numbers.insert(uniform(0, one, 0));
        numbers.insert(uniform(0, 0, one));
    }
    EXPECT_EQ(numbers.size(), 193u);
}

TEST(Random, UniformFillsTenEqualBins) {
    constexpr int count = 100000;
    std::array<int, 10> bins{};
    for (std::uint64_t i = 0; i < count; ++i) {
        double const value = uniform(7, 3, i);
        ASSERT_GE(value, 0.0);
        ASSERT_LT(value, 1.0);
        ++bins[static_cast<std::size_t>(value * 10)];
    }
    for (int const bin : bins) // 5 standard deviations of a binomial with p = 0.1
        EXPECT_NEAR(bin, count / 10, 5 * std::sqrt(count * 0.09));
}

TEST(Random, NormalHasTheMomentsAndTailsOfANormal) {
    constexpr int count = 200000;
    double sum = 0;
    double squares = 0;
    double fourths = 0;
    int within_one = 0;
    int beyond_three = 0;
    for (std::uint64_t i = 0; i < count; ++i) {
        double const value = normal(7, 3, i);
        ASSERT_TRUE(std::isfinite(value));
        sum += value;
        squares += value * value;
        fourths += value * value * value * value;
        within_one += std::abs(value) < 1;
        beyond_three += std::abs(value) > 3;
    }
    double const root = std::sqrt(static_cast<double>(count));
    EXPECT_NEAR(sum / count, 0, 5 / root);
    EXPECT_NEAR(squares / count, 1, 5 * std::sqrt(2.0) / root);
    EXPECT_NEAR(fourths / count, 3, 5 * std::sqrt(96.0) / root);
    EXPECT_NEAR(within_one, 0.682689 * count, 5 * 0.466 * root);
    EXPECT_NEAR(beyond_three, 0.002700 * count, 5 * 0.0519 * root);
}

TEST(Random, NormalFollowsBoxMullerFromTheKnownBits) {
    // philox of counter 0, key 0 (above): u1 from words 0 and 1, u2 from words 2 and 3.
    double const u1 = static_cast<double>(0xe169c58d6627e8d5u >> 11) / 9007199254740992.0;
    double const u2 = static_cast<double>(0x9b00dbd8bc57ac4cu >> 11) / 9007199254740992.0;
    double const expected = std::sqrt(-2 * std::log(1 - u1)) * std::cos(2 * M_PI * u2);
    EXPECT_FLOAT_EQ(normal(0, 0, 0), static_cast<float>(expected));
    EXPECT_EQ(uniform(0, 0, 0), u1);
}

} // namespace evener::core
