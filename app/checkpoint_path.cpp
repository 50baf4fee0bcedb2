// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint_path.hpp"

#include "checkpoints/manifest.hpp"
#include "checkpoints/store.hpp"
#include "core/log.hpp"

#include <filesystem>

namespace evener::app {

std::string checkpoint_of(std::string const& path) {
    std::error_code ignored; // a path that cannot be looked at has no checkpoint
    if (std::filesystem::exists(std::filesystem::path{path} / checkpoints::manifest_name, ignored))
        return path;
    auto const newest = checkpoints::find_newest_valid(
        path, checkpoints::Depth::sizes,
        [](std::string const& line) { core::log::root(core::log::Level::warn, "{}", line); });
    if (!newest)
        throw core::CheckpointError{path, "no checkpoint here (neither a checkpoint nor a run "
                                          "folder with a valid one); check the path"};
    return newest->folder;
}

} // namespace evener::app
