// SPDX-License-Identifier: Apache-2.0
#include "cluster/links.hpp"
#include "comm/mpi_session.hpp"

#include <gtest/gtest.h>

namespace evener::cluster {
namespace {

TEST(Links, AreKnownBetweenAllPairsAndTheSameOnEveryRank) {
    comm::MpiSession const mpi{nullptr, nullptr};
    program::Network const network = measure_network(mpi.world());
    ASSERT_EQ(network.rank_count, mpi.size());
    std::vector<double> mine;
    for (int src = 0; src < mpi.size(); ++src)
        for (int dst = 0; dst < mpi.size(); ++dst) {
            std::int32_t const index = network.wire_between(core::RankId{src}, core::RankId{dst});
            if (src == dst) {
                EXPECT_EQ(index, -1);
                continue;
            }
            ASSERT_GE(index, 0);
            program::Wire const& wire = network.wires[static_cast<std::size_t>(index)];
            EXPECT_GT(wire.latency_seconds, 0);
            EXPECT_GE(wire.seconds_per_byte, 0);
            mine.push_back(wire.latency_seconds);
            mine.push_back(wire.seconds_per_byte);
        }
    EXPECT_EQ(mpi.world().all_min(mine), mine);
    EXPECT_EQ(mpi.world().all_max(mine), mine);
}

} // namespace
} // namespace evener::cluster
