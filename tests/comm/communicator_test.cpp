// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_session.hpp"
#include "support/message.hpp"

#include <gtest/gtest.h>

#include <cstring>

namespace evener::comm {
namespace {

class CommunicatorTest : public testing::Test {
  protected:
    MpiSession session{nullptr, nullptr};
    Communicator const& world = session.world();
    int rank = session.rank();
    int size = session.size();
};

TEST_F(CommunicatorTest, SessionKnowsRanksAndHosts) {
    int world_rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    EXPECT_EQ(rank, world_rank);
    ASSERT_EQ(session.hosts().size(), static_cast<std::size_t>(size));
    EXPECT_FALSE(session.hosts()[0].empty());
    EXPECT_EQ(session.node().size(), size); // the tests run on one node
    EXPECT_EQ(session.node().rank(), rank);
    EXPECT_NE(session.library().find("MPI"), std::string::npos);
}

TEST_F(CommunicatorTest, BroadcastReachesAllFromAnyRoot) {
    for (int root = 0; root < size; ++root) {
        std::string const text = rank == root ? "from " + std::to_string(root) : "";
        EXPECT_EQ(world.broadcast(text, root), "from " + std::to_string(root));
    }
    EXPECT_EQ(world.broadcast(""), "");
}

// Even and odd ranks on a node each, so that the nodes' ranks are not in a row.
TEST_F(CommunicatorTest, EveryRankKnowsTheLowestOfEachNode) {
    Communicator const node = Communicator::split(world.get(), rank % 2);
    std::vector<int> expected;
    for (int r = 0; r < size; ++r)
        expected.push_back(r % 2);
    EXPECT_EQ(lowest_of_nodes(world, node), expected);
    EXPECT_EQ(lowest_of_nodes(world, session.node()), std::vector<int>(expected.size(), 0));
}

// Each to the next rank, the even ones first: no bytes, a few, and more than a block.
TEST_F(CommunicatorTest, MessagesArriveWholeWhateverTheirSize) {
    if (size == 1)
        return;
    int const next = (rank + 1) % size;
    int const previous = (rank + size - 1) % size;
    for (std::size_t const bytes : {0u, 5u, 9'000'001u}) {
        std::vector<std::byte> out(bytes);
        std::vector<std::byte> in(bytes);
        for (std::size_t i = 0; i < bytes; ++i)
            out[i] = static_cast<std::byte>(i * 7 + static_cast<std::size_t>(rank));
        if (rank % 2 == 0)
            world.send(out, next);
        world.receive(in, previous);
        if (rank % 2 != 0)
            world.send(out, next);
        std::size_t wrong = 0;
        for (std::size_t i = 0; i < bytes; ++i)
            wrong += in[i] != static_cast<std::byte>(i * 7 + static_cast<std::size_t>(previous));
        EXPECT_EQ(wrong, 0u) << bytes;
    }
}

TEST_F(CommunicatorTest, SplitGroupsRanksByColor) {
    Communicator const half = Communicator::split(world.get(), rank % 2);
    EXPECT_EQ(half.size(), (size + 1 - rank % 2) / 2);
    EXPECT_EQ(half.rank(), rank / 2);
}

TEST_F(CommunicatorTest, AllGatherKeepsTheOrderOfRanksAndEmptyTexts) {
    std::string const mine(static_cast<std::size_t>(rank) * 3, static_cast<char>('a' + rank));
    auto const all = world.all_gather(mine);
    ASSERT_EQ(all.size(), static_cast<std::size_t>(size));
    for (int r = 0; r < size; ++r)
        EXPECT_EQ(all[static_cast<std::size_t>(r)],
                  std::string(static_cast<std::size_t>(r) * 3, static_cast<char>('a' + r)));
}

TEST_F(CommunicatorTest, AllGatherOfValuesKeepsTheirBits) {
    std::vector<double> const mine(static_cast<std::size_t>(rank + 1), 0.1 * (rank + 1));
    auto const all = all_gather_values<double>(world, mine);
    for (int r = 0; r < size; ++r)
        EXPECT_EQ(all[static_cast<std::size_t>(r)],
                  std::vector<double>(static_cast<std::size_t>(r + 1), 0.1 * (r + 1)));
}

TEST_F(CommunicatorTest, SumsAndExtremesAreByElement) {
    std::vector<double> const values{1.0, static_cast<double>(rank), -static_cast<double>(rank)};
    double const last = size - 1;
    EXPECT_EQ(world.all_sum(values),
              (std::vector<double>{1.0 * size, last * size / 2, -last * size / 2}));
    EXPECT_EQ(world.all_max(values), (std::vector<double>{1.0, last, 0.0}));
    EXPECT_EQ(world.all_min(values), (std::vector<double>{1.0, 0.0, -last}));
    std::vector<std::int64_t> const large{(std::int64_t{1} << 60) + rank};
    EXPECT_EQ(world.all_max(large)[0], (std::int64_t{1} << 60) + size - 1);
    EXPECT_EQ(world.all_min(large)[0], std::int64_t{1} << 60);
}

TEST_F(CommunicatorTest, AgreementNamesTheFirstRankThatFailed) {
    EXPECT_TRUE(agree(world, true, "").ok);
    bool const fails = rank >= size / 2; // rank 1 of 3, rank 0 of 1
    auto const result = agree(world, !fails, "rank " + std::to_string(rank) + " is full");
    EXPECT_FALSE(result.ok);
    EXPECT_EQ(result.rank, size / 2);
    EXPECT_EQ(result.message, "rank " + std::to_string(size / 2) + " is full");
}

TEST_F(CommunicatorTest, SharedMemoryIsOneForTheNode) {
    SharedMemory const memory{session.node(), 1000 + size};
    ASSERT_EQ(memory.bytes().size(), static_cast<std::size_t>(1000 + size));
    memory.bytes()[static_cast<std::size_t>(1000 + rank)] = static_cast<std::byte>(7 + rank);
    memory.synchronize();
    for (int r = 0; r < size; ++r)
        EXPECT_EQ(memory.bytes()[static_cast<std::size_t>(1000 + r)],
                  static_cast<std::byte>(7 + r));
    memory.synchronize();
}

TEST_F(CommunicatorTest, AnMpiErrorNamesCallReasonAndRank) {
    int value = 0;
    support::expect_error_containing<core::CommError>(
        [&] { EVENER_MPI(MPI_Send(&value, 1, MPI_INT, size, 0, world.get())); },
        "MPI_Send(&value, 1, MPI_INT, size, 0, world.get()) failed on rank " +
            std::to_string(rank) + " (MPI_ERR_RANK: invalid rank)");
}

} // namespace
} // namespace evener::comm
