// SPDX-License-Identifier: Apache-2.0

// The start of groups over MPI, on fake GPUs, one a rank: who joins, and that no rank waits for ever
// for one that does not come.

#include "cluster/device_groups.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdlib>

namespace evener::cluster {
namespace {

using core::RankId;

class Joins : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        // Of the device layer beneath, before it is loaded.
        setenv("EVENER_DEVICE_PLUGIN", std::getenv("EVENER_TEST_PLUGIN"), 1);
        setenv("EVENER_HOSTCUDA_FAULT", "absent:1@1", 1);
    }

    Joins()
        : world_{comm::Communicator::duplicate(MPI_COMM_WORLD)}, gpu_{device::find_gpus().front()},
          device_{device::open_device(device::Backend::cuda, {})} {}

    /// One group of all ranks.
    program::Plan plan() const {
        program::Plan plan;
        plan.groups.emplace_back();
        for (int rank = world_.size() - 1; rank >= 0; --rank)
            plan.groups[0].ranks.emplace_back(rank);
        return plan;
    }

    DeviceGroups join(program::Plan const& plan, bool enabled = true) const {
        return join_device_groups(world_, {.plan = plan,
                                           .device = *device_,
                                           .gpu = gpu_,
                                           .enabled = enabled,
                                           .time_limit = std::chrono::seconds{1}});
    }

    comm::Communicator world_;
    device::Gpu gpu_;
    std::unique_ptr<device::Device> device_;
};

TEST_F(Joins, AMemberThatDoesNotComeIsGivenUpByAllAndOnceItComesTheyJoin) {
    DeviceGroups const without = join(plan());
    ASSERT_EQ(without.routes.size(), 1u);
    EXPECT_FALSE(without.routes[0].device);
    EXPECT_NE(without.routes[0].reason.find("some member did not come within 1 s"),
              std::string::npos)
        << without.routes[0].reason;
    EXPECT_EQ(without.own, nullptr);

    DeviceGroups const all = join(plan());
    EXPECT_TRUE(all.routes[0].device) << all.routes[0].reason;
    EXPECT_EQ(all.routes[0].reason.find("NCCL 2."), 0u) << all.routes[0].reason;
    ASSERT_NE(all.own, nullptr);
    EXPECT_EQ(all.own->rank(), world_.rank());
    EXPECT_EQ(all.own->size(), world_.size());
    ASSERT_EQ(std::ssize(all.ranks), world_.size());
    for (int rank = 0; rank < world_.size(); ++rank)
        EXPECT_EQ(all.ranks[static_cast<std::size_t>(rank)], RankId{rank}); // ascending
}

TEST_F(Joins, RanksAloneAndJobsThatWantNoneMakeNone) {
    program::Plan alone;
    for (int rank = 0; rank < world_.size(); ++rank)
        alone.groups.emplace_back().ranks.emplace_back(rank);
    DeviceGroups const groups = join(alone);
    EXPECT_EQ(groups.own, nullptr);
    for (GroupRoute const& route : groups.routes)
        EXPECT_EQ(route.reason, "one rank alone");
    DeviceGroups const off = join(plan(), false);
    EXPECT_EQ(off.own, nullptr);
    EXPECT_EQ(off.routes[0].reason, "'run.nccl' is \"off\"");
}

} // namespace
} // namespace evener::cluster
