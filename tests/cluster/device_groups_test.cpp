// SPDX-License-Identifier: Apache-2.0

// Who may reduce among devices, and the words for those who may not.

#include "cluster/device_groups.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

namespace evener::cluster {
namespace {

using core::RankId;

std::vector<GroupFacts> equal_facts(std::size_t ranks) {
    return std::vector<GroupFacts>(ranks, {.model = "H100, compute capability 9.0",
                                           .driver = "CUDA 13.0",
                                           .library = "2.27.3",
                                           .networks = "eth0 mlx5_0",
                                           .trouble = ""});
}

TEST(DeviceGroups, EqualDevicesFormOne) {
    EXPECT_EQ(why_no_group({RankId{0}, RankId{2}}, equal_facts(3)), "");
}

TEST(DeviceGroups, OneRankIsNoGroup) {
    EXPECT_EQ(why_no_group({RankId{1}}, equal_facts(3)), "one rank alone");
}

TEST(DeviceGroups, WhatDiffersIsNamedWithBothValues) {
    struct Case {
        std::string GroupFacts::*field;
        char const* message;
    };
    for (auto const& [field, message] :
         {Case{&GroupFacts::model, "ranks 0 and 2 differ in GPU: 'H100, compute capability 9.0' "
                                   "and 'other'"},
          Case{&GroupFacts::driver, "ranks 0 and 2 differ in driver: 'CUDA 13.0' and 'other'"},
          Case{&GroupFacts::library, "ranks 0 and 2 differ in NCCL version: '2.27.3' and 'other'"},
          Case{&GroupFacts::networks,
               "ranks 0 and 2 differ in network adapters: 'eth0 mlx5_0' and 'other'"}}) {
        auto facts = equal_facts(4);
        facts[2].*field = "other";
        EXPECT_EQ(why_no_group({RankId{0}, RankId{1}, RankId{2}}, facts), message);
        EXPECT_EQ(why_no_group({RankId{0}, RankId{1}, RankId{3}}, facts), "");
    }
}

TEST(DeviceGroups, AMemberOnTheCpuSpoilsIt) {
    auto facts = equal_facts(2);
    facts[1] = group_facts(nullptr, nullptr);
    EXPECT_EQ(why_no_group({RankId{0}, RankId{1}}, facts), "rank 1: computes on the CPU");
}

TEST(DeviceGroups, NetworksAreAdaptersAndInterfacesThatAreHardware) {
    support::TemporaryFolder const folder{"networks"};
    EXPECT_EQ(network_names(folder / "nothing"), "");
    for (char const* const name :
         {"infiniband/mlx5_1", "infiniband/mlx5_0", "net/eth0/device", "net/lo", "net/veth12"})
        std::filesystem::create_directories(folder / name);
    EXPECT_EQ(network_names(folder / "."), "eth0 mlx5_0 mlx5_1");
}

} // namespace
} // namespace evener::cluster
