// SPDX-License-Identifier: Apache-2.0
#include "cluster/processors.hpp"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <memory>

namespace evener::cluster {

namespace {

struct TopologyDeleter {
    void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
struct BitmapDeleter {
    void operator()(hwloc_bitmap_t set) const { hwloc_bitmap_free(set); }
};
using Topology = std::unique_ptr<hwloc_topology, TopologyDeleter>;
using Bitmap = std::unique_ptr<hwloc_bitmap_s, BitmapDeleter>;

Topology load_topology() {
    hwloc_topology_t topology = nullptr;
    if (hwloc_topology_init(&topology) != 0)
        return nullptr;
    Topology owned{topology};
    return hwloc_topology_load(topology) == 0 ? std::move(owned) : nullptr;
}

Bitmap cpuset(Topology const& topology) {
    Bitmap set{hwloc_bitmap_alloc()};
    if (hwloc_get_cpubind(topology.get(), set.get(), HWLOC_CPUBIND_PROCESS) != 0)
        hwloc_bitmap_copy(set.get(), hwloc_topology_get_allowed_cpuset(topology.get()));
    return set;
}

std::string to_text(Bitmap const& set) {
    char* text = nullptr;
    hwloc_bitmap_asprintf(&text, set.get());
    std::string result = text != nullptr ? text : "";
    std::free(text);
    return result;
}

} // namespace

Processors own_processors() {
    Processors result;
    if (Topology const topology = load_topology()) {
        Bitmap const set = cpuset(topology);
        int const cores =
            hwloc_get_nbobjs_inside_cpuset_by_type(topology.get(), set.get(), HWLOC_OBJ_CORE);
        // A cpuset of single hardware threads contains no whole core.
        result.cores = std::max({1, cores, cores > 0 ? 0 : hwloc_bitmap_weight(set.get())});
    }
    return result;
}

Processors processors(comm::Communicator const& node) {
    Processors result = own_processors();
    Topology const topology = load_topology();
    std::string const mine = topology ? to_text(cpuset(topology)) : std::string{};
    std::vector<std::string> const all = node.all_gather(mine);
    result.sharing_ranks = static_cast<int>(std::count(all.begin(), all.end(), mine));
    return result;
}

std::int64_t resident_bytes() {
    std::ifstream file{"/proc/self/statm"};
    std::int64_t total = 0;
    std::int64_t resident = 0;
    file >> total >> resident;
    return file ? resident * sysconf(_SC_PAGESIZE) : 0;
}

} // namespace evener::cluster
