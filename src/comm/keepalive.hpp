// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether mpirun will notice soon that a host has died.

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace evener::comm {

/// What to say where mpirun of Open MPI 4 started ranks on several hosts without the parameters by
/// which it notices the death of a host soon; else "". `lookup` reads the environment (null: not
/// set), `hosts` are those of the ranks, `library` is MpiSession::library().
std::string missing_keepalive(std::function<char const*(char const*)> const& lookup,
                              std::vector<std::string> const& hosts, std::string_view library);

} // namespace evener::comm
