// SPDX-License-Identifier: Apache-2.0

// What goes wrong ends the pass on the rank that sees it, with words that name the instruction, the
// peer and the tag. Each test has a transport of its own, whose communicators the messages left
// behind cannot leave.

#include "support/message.hpp"

#include "transport_support.hpp"

#include <array>
#include <chrono>
#include <thread>

namespace evener::comm {
namespace {

using core::InstructionId;
using core::RankId;
using namespace std::chrono_literals;

std::vector<TransportQueue> one(TransportQueue::Kind kind, InstructionId id, Work work) {
    return {{kind, {{id, {}, std::move(work)}}}};
}

/// Rank 0 sends `sent` bytes, rank 1 expects `expected` and must see `message`.
void check_sizes(std::int64_t sent, std::int64_t expected, std::string const& message) {
    Transport transport{MPI_COMM_WORLD};
    std::vector<std::byte> data(1 << 20);
    Board board{10};
    if (world_rank() == 0) {
        auto const queues = one(TransportQueue::Kind::send, InstructionId{2},
                                SendTask{RankId{1}, Direction::backward, 12, data.data(), sent});
        transport.start(queues, board);
        transport.finish();
    } else {
        auto const queues =
            one(TransportQueue::Kind::receive, InstructionId{4},
                ReceiveTask{RankId{0}, Direction::backward, 12, data.data(), expected});
        transport.start(queues, board);
        support::expect_error<core::CommError>([&] { transport.finish(); }, message);
        EXPECT_FALSE(board.done(InstructionId{4}));
    }
    MPI_Barrier(MPI_COMM_WORLD);
}

TEST(TransportErrors, AShortMessageNamesBothSizes) {
    check_sizes(100, 104,
                "instruction 4 (receive of 104 bytes from rank 0, tag 12, backward): rank 0 sent "
                "100 bytes with tag 12 instead of the 104 bytes expected");
}

TEST(TransportErrors, ALongMessageNamesTheExpectedSize) {
    check_sizes(200, 104,
                "instruction 4 (receive of 104 bytes from rank 0, tag 12, backward): rank 0 sent "
                "more than the 104 bytes expected with tag 12");
    check_sizes(200000, 150000,
                "instruction 4 (receive of 150000 bytes from rank 0, tag 12, backward): rank 0 "
                "sent more than the 150000 bytes expected with tag 12");
}

TEST(TransportErrors, AFailedComputeThreadStopsTheTransport) {
    Transport transport{MPI_COMM_WORLD};
    std::array<std::byte, 8> data{};
    Board board{1};
    auto const queues = one(
        TransportQueue::Kind::receive, InstructionId{0},
        ReceiveTask{RankId{1 - world_rank()}, Direction::forward, 1, data.data(), 8}); // never sent
    transport.start(queues, board);
    std::this_thread::sleep_for(5ms);
    board.fail(std::make_exception_ptr(core::DeviceError{3, true, "the device is gone"}));
    support::expect_error<core::DeviceError>([&] { transport.finish(); }, "the device is gone");
}

TEST(TransportErrors, AnExceptionOfACallbackEndsTheWaitOfTheComputeThread) {
    Transport transport{MPI_COMM_WORLD};
    auto const queues = only(ScalarsTask{
        []() -> std::vector<std::byte> { throw std::runtime_error{"no losses"}; },
        [](std::vector<std::vector<std::byte>> const&) { return std::vector<std::byte>{}; },
        [](std::span<std::byte const>) {}});
    Board board{1};
    transport.start(queues, board);
    support::expect_error<core::CommError>([&] { board.wait(InstructionId{0}); },
                                           "instruction 0 (scalars): no losses");
    support::expect_error<core::CommError>([&] { transport.finish(); },
                                           "instruction 0 (scalars): no losses");
}

TEST(TransportErrors, ATransportCanBeTakenDownDuringAPass) {
    std::array<std::byte, 8> data{};
    Board board{1};
    auto const queues =
        one(TransportQueue::Kind::receive, InstructionId{0},
            ReceiveTask{RankId{1 - world_rank()}, Direction::forward, 1, data.data(), 8});
    {
        Transport transport{MPI_COMM_WORLD};
        transport.start(queues, board);
    }
    EXPECT_TRUE(board.failed());
}

TEST(TransportErrors, TasksThatCannotBeAreRefusedBeforeThePass) {
    Transport transport{MPI_COMM_WORLD};
    std::array<std::byte, 8> data{};
    Board board{1};
    auto const refused = [&](InstructionId id, SendTask const& task) {
        auto const queues = one(TransportQueue::Kind::send, id, task);
        EXPECT_THROW(transport.start(queues, board), core::ContractViolation);
    };
    InstructionId const id{0};
    refused(id, {RankId{2}, Direction::forward, 0, data.data(), 8});
    refused(id, {RankId{}, Direction::forward, 0, data.data(), 8});
    refused(id, {RankId{0}, Direction::forward, -1, data.data(), 8});
    refused(id, {RankId{0}, Direction::forward, transport.max_tag() + 1, data.data(), 8});
    refused(id, {RankId{0}, Direction::forward, 0, nullptr, 8});
    refused(id, {RankId{0}, Direction::forward, 0, data.data(), -8});
    refused(InstructionId{1}, {RankId{0}, Direction::forward, 0, data.data(), 8});
}

} // namespace
} // namespace evener::comm
