// SPDX-License-Identifier: Apache-2.0
#include "cluster/topology.hpp"

namespace evener::cluster {

Topology load_topology() {
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0)
        return nullptr;
    Topology owned{topology};
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    return hwloc_topology_load(topology) == 0 ? std::move(owned) : nullptr;
}

Bitmap cpuset(Topology const& topology) {
    Bitmap set{hwloc_bitmap_alloc()};
    if (hwloc_get_cpubind(topology.get(), set.get(), HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(set.get(), hwloc_topology_get_allowed_cpuset(topology.get()));
    return set;
}

} // namespace evener::cluster
