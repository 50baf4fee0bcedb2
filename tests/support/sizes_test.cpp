// SPDX-License-Identifier: Apache-2.0

// The promise of the three sizes: a smaller one is the beginning of a larger one.

#include "core/error.hpp"
#include "support/message.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

namespace evener::support {
namespace {

/// Sets an environment variable for one scope.
class Variable {
  public:
    Variable(char const* name, char const* value) : name_{name} {
        if (char const* const old = std::getenv(name)) {
            old_ = old;
            was_set_ = true;
        }
        value ? setenv(name, value, 1) : unsetenv(name);
    }
    ~Variable() { was_set_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }

  private:
    char const* name_;
    std::string old_;
    bool was_set_ = false;
};

std::vector<std::uint64_t> seeds_at(char const* size, std::string_view test, int full_count) {
    Variable const all{"EVENER_TEST_SEED", nullptr};
    Variable const chosen{"EVENER_TEST_SIZE", size};
    return seeds(test, full_count);
}

bool is_prefix(std::vector<std::uint64_t> const& shorter,
               std::vector<std::uint64_t> const& longer) {
    return shorter.size() <= longer.size() &&
           std::equal(shorter.begin(), shorter.end(), longer.begin());
}

TEST(Sizes, SmallerSizesAreTheBeginningOfLargerOnes) {
    for (int const full : {1, 2, 9, 200, 2000}) {
        auto const all = seeds_at("full", "a test", full);
        auto const tenth = seeds_at("ci", "a test", full);
        auto const fiftieth = seeds_at("quick", "a test", full);
        EXPECT_EQ(all.size(), static_cast<std::size_t>(full));
        EXPECT_TRUE(is_prefix(tenth, all)) << full;
        EXPECT_TRUE(is_prefix(fiftieth, tenth)) << full;
    }
    EXPECT_EQ(seeds_at("ci", "a test", 200).size(), 20u);
    EXPECT_EQ(seeds_at("quick", "a test", 200).size(), 4u);
    EXPECT_EQ(seeds_at("quick", "a test", 10).size(), 2u);
    EXPECT_EQ(seeds_at("quick", "a test", 1).size(), 1u);
}

TEST(Sizes, SeedsDifferWithinATestAndBetweenTests) {
    auto const a = seeds_at("full", "a", 1000);
    auto const b = seeds_at("full", "b", 1000);
    std::set<std::uint64_t> all{a.begin(), a.end()};
    all.insert(b.begin(), b.end());
    EXPECT_EQ(all.size(), 2000u);
}

TEST(Sizes, OneSeedCanBeRepeated) {
    Variable const one{"EVENER_TEST_SEED", "17"};
    EXPECT_EQ(seeds("a test", 200), (std::vector<std::uint64_t>{17}));
}

TEST(Sizes, AnUnknownSizeIsRefused) {
    Variable const chosen{"EVENER_TEST_SIZE", "huge"};
    expect_error<core::ConfigError>(
        [] { size(); }, "error: EVENER_TEST_SIZE is 'huge' (it must be quick, ci or full)");
}

TEST(Sizes, DrawsRepeatForTheSameSeed) {
    auto const numbers = rc::gen::container<std::vector<int>>(rc::gen::arbitrary<int>());
    EXPECT_EQ(draw(numbers, 5), draw(numbers, 5));
    EXPECT_NE(draw(numbers, 5), draw(numbers, 6));
}

TEST(Sizes, PropertiesRunOncePerSeedWithSizesFromSmallToLarge) {
    Variable const all{"EVENER_TEST_SEED", nullptr};
    Variable const chosen{"EVENER_TEST_SIZE", "full"};
    int runs = 0;
    std::size_t longest = 0;
    check_property("counting", 100, [&] {
        longest = std::max(longest, (*rc::gen::arbitrary<std::vector<int>>()).size());
        ++runs;
    });
    EXPECT_EQ(runs, 100);
    EXPECT_GT(longest, 20u);
}

} // namespace
} // namespace evener::support
