// SPDX-License-Identifier: Apache-2.0

// Every handle is closed exactly once, whatever way it went.

#include "core/handle.hpp"

#include <gtest/gtest.h>

#include <type_traits>
#include <utility>
#include <vector>

namespace evener::core {
namespace {

std::vector<int> closed;

struct NumberTraits {
    using Handle = int;
    static int null() noexcept { return -1; }
    static void close(int handle) noexcept { closed.push_back(handle); }
};
using Number = UniqueHandle<NumberTraits>;

static_assert(!std::is_copy_constructible_v<Number> && !std::is_copy_assignable_v<Number>);
static_assert(std::is_nothrow_move_constructible_v<Number>);
static_assert(std::is_nothrow_destructible_v<Number>);

class Handle : public testing::Test {
  protected:
    void SetUp() override { closed.clear(); }
};

TEST_F(Handle, IsClosedOnceAtTheEnd) {
    { Number const one{1}; }
    EXPECT_EQ(closed, (std::vector<int>{1}));
}

TEST_F(Handle, NullIsNeverClosed) {
    {
        Number none;
        none.reset();
        EXPECT_EQ(none.get(), -1);
    }
    EXPECT_TRUE(closed.empty());
}

TEST_F(Handle, MovingLeavesNullBehind) {
    {
        Number a{1};
        Number b{std::move(a)};
        Number c{2};
        c = std::move(b);
        EXPECT_EQ(closed, (std::vector<int>{2}));
        EXPECT_EQ(c.get(), 1);
    }
    EXPECT_EQ(closed, (std::vector<int>{2, 1}));
}

TEST_F(Handle, MovingOntoItselfKeepsIt) {
    Number a{3};
    Number& same = a;
    a = std::move(same);
    EXPECT_EQ(a.get(), 3);
    EXPECT_TRUE(closed.empty());
}

TEST_F(Handle, ReleaseGivesItAway) {
    { EXPECT_EQ(Number{4}.release(), 4); }
    EXPECT_TRUE(closed.empty());
}

} // namespace
} // namespace evener::core
