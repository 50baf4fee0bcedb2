// SPDX-License-Identifier: Apache-2.0
#pragma once

// Drills: EVENER_FAULT=save.POINT[:rank=R][:step=S]:kill ends a process with SIGKILL at a named point
// of a save (checkpoints/save_points.hpp), on any rank and step that it does not name.

#include "checkpoints/save_points.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace evener::runtime {

struct SaveFault {
    checkpoints::SavePoint point = checkpoints::SavePoint::begin_start;
    std::optional<int> rank = {};
    std::optional<std::int64_t> step = {};

    friend bool operator==(SaveFault const&, SaveFault const&) = default;
};

/// Throws core::ConfigError for anything else, with the names of all points where it is the point.
SaveFault parse_save_fault(std::string_view text);

/// What EVENER_FAULT says; nothing where it is not set.
std::optional<SaveFault> save_fault_from_environment();

/// Of a job's saves, what decides which rank passes which point.
struct SavePassers {
    std::vector<int> writers; ///< world ranks; the lowest commits
    int ranks = 0;            ///< of the world
    bool one_file = false;    ///< that all writers fill
};

/// Throws core::ConfigError where the fault's point is passed by no rank, or never by the one that it
/// names: a drill that kills nobody would look like one that was survived.
void require_passed(SaveFault const& fault, SavePassers const& passers);

/// What a save of `step` calls on `rank`; empty where the fault is of another rank or step.
checkpoints::AtPoint drill(std::optional<SaveFault> const& fault, int rank, std::int64_t step);

} // namespace evener::runtime
