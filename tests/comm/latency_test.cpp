// SPDX-License-Identifier: Apache-2.0

// A message travels while both ranks compute: 1 MiB sent to a rank in the middle of an instruction
// of 200 ms is there before that instruction ends.

#include "transport_support.hpp"

#include <chrono>
#include <cstdio>

namespace evener::comm {
namespace {

using core::InstructionId;
using core::RankId;
using Clock = std::chrono::steady_clock;

/// Computes for that long and never gives its core away by itself.
double compute(std::chrono::milliseconds duration) {
    auto const end = Clock::now() + duration;
    double volatile value = 1;
    while (Clock::now() < end)
        for (int i = 0; i < 1000; ++i)
            value = value * 1.0000001;
    return value;
}

TEST(Transport, ReceivesAMessageInTheMiddleOfAnInstruction) {
    using namespace std::chrono_literals;
    Transport transport{MPI_COMM_WORLD};
    std::vector<std::byte> data(1 << 20, static_cast<std::byte>(world_rank() == 0 ? 5 : 0));
    auto const bytes = static_cast<std::int64_t>(data.size());
    InstructionId const message{0};
    InstructionId const half{1};
    std::vector<TransportQueue> queues;
    if (world_rank() == 0)
        queues = {
            {TransportQueue::Kind::send,
             {{message, {half}, SendTask{RankId{1}, Direction::forward, 0, data.data(), bytes}}}}};
    else
        queues = {
            {TransportQueue::Kind::receive,
             {{message, {}, ReceiveTask{RankId{0}, Direction::forward, 0, data.data(), bytes}}}}};
    Board board{2};
    MPI_Barrier(MPI_COMM_WORLD);
    board.reset();
    transport.start(queues, board);
    board.start(half);
    compute(world_rank() == 0 ? 50ms : 200ms);
    board.publish(half);
    bool const in_time = board.done(message);
    if (world_rank() == 0)
        compute(150ms);
    transport.finish();
    if (world_rank() == 1) {
        EXPECT_TRUE(in_time);
        EXPECT_EQ(data, std::vector<std::byte>(data.size(), std::byte{5}));
        RecordProperty("received_ms", static_cast<int>(1e3 * board.times(message).end));
        std::printf("sent at about 50 ms, received at %.1f ms\n", 1e3 * board.times(message).end);
    }
}

} // namespace
} // namespace evener::comm
