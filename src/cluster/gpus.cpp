// SPDX-License-Identifier: Apache-2.0
#include "cluster/gpus.hpp"

#include "cluster/topology.hpp"

#include <algorithm>
#include <set>

namespace evener::cluster {

namespace {

constexpr int farthest = 2;

/// How far the device on this bus lies from the cores of `own`.
int distance_of(Topology const& topology, Bitmap const& own, char const* bus_id) {
    hwloc_obj_t const device = hwloc_get_pcidev_by_busidstring(topology.get(), bus_id);
    hwloc_obj_t const near =
        device != nullptr ? hwloc_get_non_io_ancestor_obj(topology.get(), device) : nullptr;
    if (near == nullptr || near->cpuset == nullptr)
        return 0;
    if (hwloc_bitmap_intersects(near->cpuset, own.get()))
        return 0;
    hwloc_obj_t const package =
        hwloc_get_ancestor_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, near);
    bool const shared = package != nullptr && hwloc_bitmap_intersects(package->cpuset, own.get());
    return shared ? 1 : farthest;
}

} // namespace

std::vector<std::optional<int>>
assign_gpus(std::vector<std::vector<GpuCandidate>> const& candidates) {
    std::vector<std::optional<int>> result(candidates.size());
    std::set<std::array<unsigned char, 16>> taken;
    for (int distance = 0; distance <= farthest; ++distance)
        for (std::size_t rank = 0; rank < candidates.size(); ++rank)
            for (GpuCandidate const& gpu : candidates[rank])
                if (!result[rank] && gpu.distance <= distance && taken.insert(gpu.uuid).second)
                    result[rank] = gpu.ordinal;
    return result;
}

std::vector<GpuCandidate> gpu_candidates(std::vector<device::Gpu> const& gpus) {
    std::vector<GpuCandidate> candidates;
    Topology const topology = gpus.empty() ? nullptr : load_topology();
    Bitmap const own = topology ? cpuset(topology) : nullptr;
    for (device::Gpu const& gpu : gpus) {
        GpuCandidate& candidate = candidates.emplace_back();
        candidate.ordinal = gpu.ordinal;
        std::copy_n(gpu.facts.uuid, candidate.uuid.size(), candidate.uuid.begin());
        if (topology)
            candidate.distance = distance_of(topology, own, gpu.facts.bus_id);
    }
    return candidates;
}

std::optional<int> own_gpu(comm::Communicator const& node,
                           std::vector<GpuCandidate> const& candidates) {
    auto const all = comm::all_gather_values(node, std::span<GpuCandidate const>{candidates});
    return assign_gpus(all)[static_cast<std::size_t>(node.rank())];
}

} // namespace evener::cluster
