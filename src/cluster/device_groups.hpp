// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which of a plan's groups reduce and gather among their devices, and the start of those groups.
// Only equal devices do: collectives between unlike GPUs, libraries or networks hang or fail in ways
// that are hard to tell. The others exchange through host memory, which works between any two kinds.

#include "comm/communicator.hpp"
#include "device/group.hpp"
#include "device/plugin.hpp"
#include "program/plan.hpp"

#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace evener::cluster {

/// What must be equal for devices to form a group; `trouble` says why this rank's cannot.
struct GroupFacts {
    std::string model;    ///< "NVIDIA H100 80GB HBM3, compute capability 9.0"
    std::string driver;   ///< "CUDA 13.0"
    std::string library;  ///< of collectives: "2.27.3"
    std::string networks; ///< names of the adapters, "mlx5_0 eth0"
    std::string trouble;

    friend bool operator==(GroupFacts const&, GroupFacts const&) = default;
};

/// Of this rank's device; null: it computes on the CPU. Opens the library of collectives.
GroupFacts group_facts(device::Device const* device, kernels::DeviceFacts const* gpu);

/// InfiniBand adapters and the network interfaces that are hardware, by name.
std::string network_names(std::filesystem::path const& classes = "/sys/class");

/// Why these ranks' devices cannot form a group; empty = they can. `facts`: by rank of the job.
std::string why_no_group(std::vector<core::RankId> const& ranks,
                         std::vector<GroupFacts> const& facts);

/// How one of the plan's groups reduces and gathers, for the start table.
struct GroupRoute {
    bool device = false; ///< among its devices; else through host memory
    std::string reason;  ///< the library's version, or why not
};

struct DeviceGroups {
    std::vector<GroupRoute> routes;     ///< by group of the plan
    std::unique_ptr<device::Group> own; ///< null: this rank exchanges through host memory
    std::vector<core::RankId> ranks;    ///< of the own group, ascending: the places of its members
};

struct DeviceGroupInput {
    program::Plan const& plan;
    device::Device const& device;
    std::optional<device::Gpu> gpu; ///< none: this rank computes on the CPU
    bool enabled = true;            ///< the same on all ranks; false: none is made
    std::chrono::seconds time_limit{60};
};

/// Collective. A group that some member cannot join within the time limit is given up by all.
DeviceGroups join_device_groups(comm::Communicator const& world, DeviceGroupInput const& input);

} // namespace evener::cluster
