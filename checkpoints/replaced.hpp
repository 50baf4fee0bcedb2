// SPDX-License-Identifier: Apache-2.0
#pragma once

// What stands where a checkpoint is to go: a checkpoint that the new one makes useless may be deleted,
// anything else belongs to somebody and is moved out of the way. Used inside checkpoints/ only.

#include "checkpoints/records.hpp"

#include <string>

namespace evener::checkpoints {

/// Whether `next` makes useless what is at `path`: an empty folder, or a checkpoint of the same step,
/// seed, data and model.
bool is_superseded(std::string const& path, Manifest const& next);

/// Renames `path` to `path`.replaced, or to `path`.replaced-2, -3 ... where that is taken; returns the
/// new path. Throws IoError.
std::string move_aside(std::string const& path);

} // namespace evener::checkpoints
