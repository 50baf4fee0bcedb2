// SPDX-License-Identifier: Apache-2.0
#include "faults.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

namespace evener::hostcuda {
namespace {

constexpr std::array kind_names{"dropped_wait", "early_event", "swapped_collectives", "dies",
                                "absent"};

struct Planted {
    FaultKind kind;
    long occasion; ///< counts down
};

[[noreturn]] void refuse(std::string const& text) {
    std::fprintf(
        stderr,
        "EVENER_HOSTCUDA_FAULT is '%s'; it is KIND:NUMBER or KIND:NUMBER@RANK, with a kind "
        "of dropped_wait, early_event, swapped_collectives, dies, absent\n",
        text.c_str());
    std::abort();
}

/// Of this process, by Open MPI's word.
std::string own_rank() {
    char const* const text = std::getenv("OMPI_COMM_WORLD_RANK");
    return text ? text : "0";
}

std::optional<Planted> read() {
    char const* const variable = std::getenv("EVENER_HOSTCUDA_FAULT");
    if (!variable || !*variable)
        return std::nullopt;
    std::string const text = variable;
    auto const colon = text.find(':');
    auto const at = text.find('@');
    if (colon == std::string::npos)
        refuse(text);
    std::string const name = text.substr(0, colon);
    long const occasion = std::strtol(text.c_str() + colon + 1, nullptr, 10);
    if (at != std::string::npos && text.substr(at + 1) != own_rank())
        return std::nullopt;
    for (std::size_t kind = 0; kind < kind_names.size(); ++kind)
        if (name == kind_names[kind] && occasion > 0)
            return Planted{static_cast<FaultKind>(kind), occasion};
    refuse(text);
}

} // namespace

bool fault_now(FaultKind kind) {
    static std::optional<Planted> planted = read();
    if (!planted || planted->kind != kind || --planted->occasion != 0)
        return false;
    std::fprintf(stderr, "planted: %s\n", kind_names[static_cast<std::size_t>(kind)]);
    return true;
}

} // namespace evener::hostcuda
