// SPDX-License-Identifier: Apache-2.0

// Ids of different kinds must not mix; that is checked while compiling.

#include "core/ids.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <unordered_set>

namespace evener::core {
namespace {

static_assert(!std::is_convertible_v<int, RankId>);
static_assert(!std::is_convertible_v<RankId, int>);
static_assert(!std::is_constructible_v<RankId, GroupId>);
static_assert(!std::is_assignable_v<RankId&, MicrobatchId>);
static_assert(sizeof(RankId) == 4);
static_assert(std::is_trivially_copyable_v<RankId>);

template <class A, class B>
concept Comparable = requires(A a, B b) {
    a == b;
};
static_assert(Comparable<RankId, RankId>);
static_assert(!Comparable<RankId, GroupId>);

TEST(Ids, TheDefaultIsNoId) {
    EXPECT_FALSE(RankId{}.valid());
    EXPECT_TRUE(RankId{0}.valid());
}

TEST(Ids, OrderIsThatOfTheIndex) {
    EXPECT_LT(LayerId{2}, LayerId{10});
    EXPECT_LT(LayerId{}, LayerId{0});
    EXPECT_EQ(LayerId{7}.index(), 7u);
}

TEST(Ids, CanBeKeysOfHashTables) {
    std::unordered_set<BufferId> const ids{BufferId{1}, BufferId{2}, BufferId{1}};
    EXPECT_EQ(ids.size(), 2u);
    EXPECT_TRUE(ids.contains(BufferId{2}));
    EXPECT_FALSE(ids.contains(BufferId{3}));
}

} // namespace
} // namespace evener::core
