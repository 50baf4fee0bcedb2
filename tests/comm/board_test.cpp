// SPDX-License-Identifier: Apache-2.0
#include "comm/board.hpp"
#include "core/error.hpp"
#include "support/message.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace evener::comm {
namespace {

using core::InstructionId;
using namespace std::chrono_literals;

TEST(Board, WaiterSeesWhatWasWrittenBeforeThePublication) {
    constexpr int rounds = 2000;
    Board board{2 * rounds};
    std::vector<int> values(2 * rounds, -1); // plain memory: the board alone orders the accesses
    std::jthread const other{[&] {
        for (int i = 0; i < rounds; ++i) {
            board.wait(InstructionId{2 * i});
            values[2 * i + 1] = values[2 * i] + 1;
            board.publish(InstructionId{2 * i + 1});
        }
    }};
    for (int i = 0; i < rounds; ++i) {
        values[2 * i] = 10 * i;
        board.publish(InstructionId{2 * i});
        board.wait(InstructionId{2 * i + 1});
        ASSERT_EQ(values[2 * i + 1], 10 * i + 1);
    }
}

TEST(Board, FailureWakesAWaiterAndTheFirstOneCounts) {
    Board board{1};
    std::jthread const other{[&] {
        std::this_thread::sleep_for(5ms);
        board.fail(std::make_exception_ptr(core::CommError{1, 0, "first"}));
        board.fail(std::make_exception_ptr(core::CommError{1, 0, "second"}));
    }};
    support::expect_error<core::CommError>([&] { board.wait(InstructionId{0}); }, "first");
    EXPECT_TRUE(board.failed());
    support::expect_error<core::CommError>([&] { board.rethrow_failure(); }, "first");
}

TEST(Board, ResetForgetsInstructionsAndFailure) {
    Board board{2};
    board.publish(InstructionId{1});
    board.fail(std::make_exception_ptr(core::CommError{1, 0, "lost"}));
    board.reset();
    EXPECT_FALSE(board.done(InstructionId{1}));
    EXPECT_FALSE(board.failed());
    board.rethrow_failure();
    board.publish(InstructionId{1});
    board.wait(InstructionId{1});
}

TEST(Board, AnInstructionIsPublishedOnce) {
    Board board{1};
    board.publish(InstructionId{0});
    EXPECT_THROW(board.publish(InstructionId{0}), core::ContractViolation);
    EXPECT_THROW(board.publish(InstructionId{1}), core::ContractViolation);
}

TEST(Board, WaitForChangeEndsAtOnceWhenTheChangeCameBefore) {
    Board board{1};
    auto const seen = board.changes();
    board.publish(InstructionId{0});
    board.wait_for_change(seen); // would sleep for ever
    EXPECT_NE(board.changes(), seen);
}

TEST(Board, WaitForChangeEndsAtItsLimit) {
    Board board{1};
    auto const begin = std::chrono::steady_clock::now();
    board.wait_for_change(board.changes(), 20ms);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 20ms);
}

TEST(Board, TimesCountFromTheReset) {
    Board board{1};
    board.reset();
    std::this_thread::sleep_for(2ms);
    board.start(InstructionId{0});
    std::this_thread::sleep_for(3ms);
    board.publish(InstructionId{0});
    InstructionTimes const times = board.times(InstructionId{0});
    EXPECT_GE(times.start, 0.002);
    EXPECT_GE(times.end - times.start, 0.003);
    EXPECT_LT(times.end, 2.0);
}

TEST(Board, DoneOfSeveralNeedsAll) {
    Board board{3};
    std::array const ids{InstructionId{0}, InstructionId{2}};
    board.publish(InstructionId{0});
    EXPECT_FALSE(board.done(ids));
    board.publish(InstructionId{2});
    EXPECT_TRUE(board.done(ids));
    EXPECT_TRUE(board.done(std::span<InstructionId const>{}));
}

} // namespace
} // namespace evener::comm
