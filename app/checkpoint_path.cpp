// SPDX-License-Identifier: Apache-2.0
#include "app/checkpoint_path.hpp"

#include "checkpoints/manifest.hpp"
#include "checkpoints/store.hpp"
#include "core/log.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace evener::app {

namespace fs = std::filesystem;

void refuse_file(std::string const& path) {
    std::error_code ignored; // what cannot be looked at is told by who opens it
    fs::file_status const status = fs::status(path, ignored);
    if (!fs::exists(status) || fs::is_directory(status))
        return;
    fs::path const file{path};
    bool const ours = file.filename() == "latest" || file.filename() == checkpoints::manifest_name;
    throw core::CheckpointError{
        path, fmt::format("is a file (a checkpoint is a folder); name the run folder or one of its "
                          "'step-' folders{}",
                          ours && file.has_parent_path()
                              ? fmt::format(", such as '{}'", file.parent_path().string())
                              : "")};
}

std::string checkpoint_of(std::string const& path) {
    refuse_file(path);
    std::error_code ignored; // a path that cannot be looked at has no checkpoint
    if (fs::exists(fs::path{path} / checkpoints::manifest_name, ignored))
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
