// SPDX-License-Identifier: Apache-2.0

// Point-to-point tasks: sizes, order, many receives in flight, waiting for the board, several
// passes of the same queues.

#include "transport_support.hpp"

#include <algorithm>
#include <thread>

namespace evener::comm {
namespace {

using core::InstructionId;
using core::RankId;
using namespace std::chrono_literals;

std::byte pattern(int from, int tag, std::size_t i) {
    return static_cast<std::byte>(31 * from + 7 * tag + static_cast<int>(i % 251));
}

/// Every rank sends `count` messages of growing size to every other rank in both directions, and
/// receives as many, each through one queue.
struct AllToAll {
    std::vector<TransportQueue> queues;
    std::vector<std::vector<std::byte>> sent;
    std::vector<std::vector<std::byte>> received;
    std::int64_t next_id = 0;

    AllToAll(int count, std::vector<std::size_t> const& sizes) {
        std::size_t const links = static_cast<std::size_t>(2 * world_size() * count);
        sent.reserve(links);
        received.reserve(links);
        for (int peer = 0; peer < world_size(); ++peer)
            for (Direction const direction : {Direction::forward, Direction::backward})
                if (peer != world_rank())
                    add_link(peer, direction, count, sizes);
    }

    void add_link(int peer, Direction direction, int count, std::vector<std::size_t> const& sizes) {
        TransportQueue sends{TransportQueue::Kind::send, {}};
        TransportQueue receives{TransportQueue::Kind::receive, {}};
        for (int tag = 0; tag < count; ++tag) {
            std::size_t const size = sizes[static_cast<std::size_t>(tag) % sizes.size()];
            auto& out = sent.emplace_back(size);
            auto& in = received.emplace_back(size, std::byte{0});
            for (std::size_t i = 0; i < size; ++i)
                out[i] = pattern(world_rank() + 3 * static_cast<int>(direction), tag, i);
            auto const bytes = static_cast<std::int64_t>(size);
            sends.tasks.push_back({InstructionId{next_id++},
                                   {},
                                   SendTask{RankId{peer}, direction, tag, out.data(), bytes}});
            receives.tasks.push_back({InstructionId{next_id++},
                                      {},
                                      ReceiveTask{RankId{peer}, direction, tag, in.data(), bytes}});
        }
        queues.push_back(std::move(sends));
        queues.push_back(std::move(receives));
    }

    void clear() {
        for (auto& bytes : received)
            std::fill(bytes.begin(), bytes.end(), std::byte{0});
    }

    void check() const {
        for (TransportQueue const& queue : queues)
            for (Task const& task : queue.tasks)
                if (auto const* receive = std::get_if<ReceiveTask>(&task.work)) {
                    SCOPED_TRACE(describe(task));
                    check(*receive);
                }
    }

    static void check(ReceiveTask const& task) {
        int const from = task.peer.value + 3 * static_cast<int>(task.direction);
        for (std::int64_t i = 0; i < task.bytes; ++i)
            ASSERT_EQ(task.data[i],
                      pattern(from, static_cast<int>(task.tag), static_cast<std::size_t>(i)))
                << "byte " << i;
    }
};

TEST(Messages, OfAllSizesArriveWhole) {
    for (auto const& [name, options] : all_options()) {
        SCOPED_TRACE(name);
        Transport transport{MPI_COMM_WORLD, options};
        AllToAll exchange{6, {0, 1, 997, 4096, 65537, 400}};
        run_pass(transport, exchange.queues);
        exchange.check();
    }
}

TEST(Messages, ManyReceivesAreInFlightUnderRandomDelays) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) {
        TransportOptions options;
        options.synchronous_sends = true;
        options.random_delays = RandomDelays{seed, 400};
        Transport transport{MPI_COMM_WORLD, options};
        AllToAll exchange{20, {3, 20000, 128}};
        run_pass(transport, exchange.queues);
        exchange.check();
    }
}

TEST(Messages, TheSameQueuesServeManyPasses) {
    Transport transport{MPI_COMM_WORLD};
    AllToAll exchange{4, {5, 5000}};
    for (int pass = 0; pass < 20; ++pass) {
        exchange.clear();
        run_pass(transport, exchange.queues);
        exchange.check();
    }
}

TEST(Messages, LongOnesAreCutAndJoined) {
    TransportOptions options;
    options.message_block_bytes = 1 << 17;
    Transport transport{MPI_COMM_WORLD, options};
    AllToAll exchange{1, {(5u << 17) + 3}};
    run_pass(transport, exchange.queues);
    exchange.check();
}

/// A ring around all ranks: each passes on what it received, after its own compute instruction.
TEST(Messages, ASendWaitsForTheInstructionsItNames) {
    if (world_size() < 2)
        GTEST_SKIP() << "needs 2 ranks";
    Transport transport{MPI_COMM_WORLD};
    int const rank = world_rank();
    RankId const next{(rank + 1) % world_size()};
    RankId const before{(rank + world_size() - 1) % world_size()};
    std::int64_t in = -1;
    std::int64_t out = -1;
    InstructionId const receive{0};
    InstructionId const compute{1};
    InstructionId const send{2};
    std::vector<TransportQueue> queues(2);
    queues[0] = {
        TransportQueue::Kind::receive,
        {{receive,
          {},
          ReceiveTask{before, Direction::forward, 0, reinterpret_cast<std::byte*>(&in), 8}}}};
    queues[1] = {
        TransportQueue::Kind::send,
        {{send,
          {compute},
          SendTask{next, Direction::forward, 0, reinterpret_cast<std::byte const*>(&out), 8}}}};
    Board board{3};
    transport.start(queues, board);
    if (rank != 0)
        board.wait(receive);
    std::this_thread::sleep_for(2ms);
    EXPECT_FALSE(board.done(send));
    out = rank == 0 ? 100 : in + 1;
    board.publish(compute);
    transport.finish();
    EXPECT_EQ(in, 100 + before.value);
    EXPECT_LE(board.times(compute).end, board.times(send).start);
}

/// The receives of one link end in the order of the queue, even where a later message came first.
TEST(Messages, ReceivesEndInOrder) {
    if (world_size() < 2)
        GTEST_SKIP() << "needs 2 ranks";
    Transport transport{MPI_COMM_WORLD};
    std::byte data[2] = {};
    Board board{3};
    std::vector<TransportQueue> queues;
    InstructionId const first{0};
    InstructionId const second{1};
    InstructionId const go{2};
    if (world_rank() == 0) { // two queues, so that the later message overtakes
        queues.push_back({TransportQueue::Kind::send,
                          {{first, {go}, SendTask{RankId{1}, Direction::forward, 5, data, 1}}}});
        queues.push_back({TransportQueue::Kind::send,
                          {{second, {}, SendTask{RankId{1}, Direction::forward, 6, data, 1}}}});
    } else if (world_rank() == 1) {
        queues.push_back(
            {TransportQueue::Kind::receive,
             {{first, {}, ReceiveTask{RankId{0}, Direction::forward, 5, &data[0], 1}},
              {second, {}, ReceiveTask{RankId{0}, Direction::forward, 6, &data[1], 1}}}});
    }
    transport.start(queues, board);
    if (world_rank() == 0)
        board.wait(second);
    std::this_thread::sleep_for(20ms);
    if (world_rank() == 1) {
        EXPECT_FALSE(board.done(second));
    }
    MPI_Barrier(MPI_COMM_WORLD); // rank 1 has looked before rank 0 lets the first message go
    board.publish(go);
    transport.finish();
    if (world_rank() == 1) {
        EXPECT_LE(board.times(first).end, board.times(second).end);
    }
}

/// A send queue keeps its next message back until the one before has ended, which with synchronous
/// sends is when its receive has started.
TEST(Messages, ASendWaitsForTheEndOfTheOneBefore) {
    if (world_size() < 2)
        GTEST_SKIP() << "needs 2 ranks";
    TransportOptions options;
    options.synchronous_sends = true;
    Transport transport{MPI_COMM_WORLD, options};
    std::byte data[2] = {};
    Board board{3};
    std::vector<TransportQueue> queues;
    InstructionId const first{0};
    InstructionId const second{1};
    InstructionId const go{2};
    if (world_rank() == 0) {
        queues.push_back({TransportQueue::Kind::send,
                          {{first, {}, SendTask{RankId{1}, Direction::forward, 5, &data[0], 1}},
                           {second, {}, SendTask{RankId{1}, Direction::forward, 6, &data[1], 1}}}});
    } else if (world_rank() == 1) { // two queues, so that the later receive may start first
        queues.push_back(
            {TransportQueue::Kind::receive,
             {{first, {go}, ReceiveTask{RankId{0}, Direction::forward, 5, &data[0], 1}}}});
        queues.push_back(
            {TransportQueue::Kind::receive,
             {{second, {}, ReceiveTask{RankId{0}, Direction::forward, 6, &data[1], 1}}}});
    }
    transport.start(queues, board);
    std::this_thread::sleep_for(20ms);
    board.publish(go);
    transport.finish();
    if (world_rank() == 0) {
        EXPECT_LE(board.times(first).end, board.times(second).start);
    }
}

TEST(Messages, TransportWithoutTasksEndsAtOnce) {
    Transport transport{MPI_COMM_WORLD};
    Board board{0};
    transport.start({}, board);
    transport.finish();
    EXPECT_GT(transport.max_tag(), 30000);
}

} // namespace
} // namespace evener::comm
