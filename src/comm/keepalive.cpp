// SPDX-License-Identifier: Apache-2.0
#include "comm/keepalive.hpp"

#include <algorithm>

namespace evener::comm {

std::string missing_keepalive(std::function<char const*(char const*)> const& lookup,
                              std::vector<std::string> const& hosts, std::string_view library) {
    bool const several = std::any_of(
        hosts.begin(), hosts.end(), [&](std::string const& host) { return host != hosts.front(); });
    bool const by_mpirun = lookup("OMPI_MCA_orte_launch") != nullptr;
    // mpirun hands what it was given with --mca on to its ranks, in variables of these names.
    bool const given = lookup("OMPI_MCA_oob_tcp_keepalive_time") != nullptr;
    if (!several || !by_mpirun || given || !library.starts_with("Open MPI v4."))
        return {};
    return "mpirun may notice the death of a host only after minutes (it was started without "
           "oob_tcp_keepalive_time, unless a parameter file sets it); give it --mca "
           "oob_tcp_keepalive_time 4 --mca oob_tcp_keepalive_intvl 2 --mca "
           "oob_tcp_keepalive_probes 3";
}

} // namespace evener::comm
