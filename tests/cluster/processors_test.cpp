// SPDX-License-Identifier: Apache-2.0
#include "cluster/processors.hpp"

#include <gtest/gtest.h>
#include <sched.h>

namespace evener::cluster {
namespace {

TEST(Processors, SeesNoMoreCoresThanTheCpusetHas) {
    cpu_set_t set;
    CPU_ZERO(&set);
    ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
    Processors const found = own_processors();
    EXPECT_GE(found.cores, 1);
    EXPECT_LE(found.cores, CPU_COUNT(&set));
}

TEST(Processors, SharesTheCoresAmongTheRanksOfACpuset) {
    comm::Communicator const node = comm::Communicator::of_node(MPI_COMM_WORLD);
    Processors const found = processors(node);
    EXPECT_EQ(found.sharing_ranks, node.size()); // all unbound: one cpuset
    EXPECT_EQ(found.threads(), std::max(1, found.cores / node.size()));
}

TEST(ResidentBytes, IsWhatAProcessTakes) {
    EXPECT_GT(resident_bytes(), std::int64_t{1} << 20);
    EXPECT_LT(resident_bytes(), std::int64_t{1} << 36);
}

} // namespace
} // namespace evener::cluster
