// SPDX-License-Identifier: Apache-2.0
#pragma once

// hwloc's handles with owners. Internal to this folder.

#include <hwloc.h>

#include <memory>

namespace evener::cluster {

struct TopologyDeleter {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
struct BitmapDeleter {
    void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

/// This node, with its PCI devices; null where hwloc cannot tell.
Topology load_topology();

/// The processors that this process may run on.
Bitmap cpuset(Topology const& topology);

} // namespace evener::cluster
