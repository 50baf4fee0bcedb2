// SPDX-License-Identifier: Apache-2.0
#include "cluster/processors.hpp"

#include "cluster/topology.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

namespace evener::cluster {

namespace {

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
