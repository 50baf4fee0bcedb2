// SPDX-License-Identifier: Apache-2.0

// A message travels while both ranks compute: 1 MiB sent to a rank in the middle of an instruction
// of 200 ms is there before that instruction ends. Durations are processor time, so that a machine
// on which others work too slows both sides alike.

#include "transport_support.hpp"

#include <cstdio>
#include <ctime>

namespace evener::comm {
namespace {

using core::InstructionId;
using core::RankId;

double thread_seconds() {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Computes for that long and never gives its core away by itself.
void compute(double seconds) {
    double const end = thread_seconds() + seconds;
    double volatile value = 1;
    while (thread_seconds() < end)
        for (int i = 0; i < 1000; ++i)
            value = value * 1.0000001;
}

/// Rank 1 says when it is in the middle; then rank 0 sends.
TEST(Transport, ReceivesAMessageInTheMiddleOfAnInstruction) {
    Transport transport{MPI_COMM_WORLD};
    std::vector<std::byte> data(1 << 20, static_cast<std::byte>(world_rank() == 0 ? 5 : 0));
    auto const bytes = static_cast<std::int64_t>(data.size());
    std::byte word{};
    InstructionId const middle{0};
    InstructionId const go{1};
    InstructionId const message{2};
    using Kind = TransportQueue::Kind;
    std::vector<TransportQueue> queues;
    if (world_rank() == 0)
        queues = {
            {Kind::receive, {{go, {}, ReceiveTask{RankId{1}, Direction::backward, 0, &word, 1}}}},
            {Kind::send,
             {{message, {go}, SendTask{RankId{1}, Direction::forward, 0, data.data(), bytes}}}}};
    else
        queues = {
            {Kind::send, {{go, {middle}, SendTask{RankId{0}, Direction::backward, 0, &word, 1}}}},
            {Kind::receive,
             {{message, {}, ReceiveTask{RankId{0}, Direction::forward, 0, data.data(), bytes}}}}};
    Board board{3};
    MPI_Barrier(MPI_COMM_WORLD);
    transport.start(queues, board);
    compute(0.1);
    board.publish(middle);
    compute(0.1);
    bool const in_time = board.done(message);
    if (world_rank() == 0)
        compute(0.1);
    transport.finish();
    if (world_rank() == 1) {
        EXPECT_TRUE(in_time);
        EXPECT_EQ(data, std::vector<std::byte>(data.size(), std::byte{5}));
        std::printf("received %.1f ms after the middle\n",
                    1e3 * (board.times(message).end - board.times(middle).end));
    }
}

} // namespace
} // namespace evener::comm
