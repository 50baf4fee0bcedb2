// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace evener::app {

/// The checkpoint that a path means: itself, or the newest valid one of a run folder. Throws
/// core::CheckpointError when there is none.
std::string checkpoint_of(std::string const& path);

/// Throws core::CheckpointError where the path is a file, for a checkpoint is a folder.
void refuse_file(std::string const& path);

} // namespace evener::app
