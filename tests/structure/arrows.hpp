// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which folder may use which: the table of README.md against the link lists of the CMake targets
// and the #include lines of the sources.

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace evener::structure {

/// Folders as they are included and named in the table's last column: core, job, ..., kernels, app.
struct FolderRule {
    std::filesystem::path path; ///< from the root of the sources: "src/core", "kernels"
    bool may_use_all = false;
    std::set<std::string> may_use;
};
using FolderRules = std::map<std::string, FolderRule>;

/// The rows of the folder table that say what a folder may use. Throws core::ConfigError when a row
/// names a folder that has no row.
FolderRules read_rules(std::string_view readme);

/// `from` uses `to`; `where` says by which target or line.
struct Arrow {
    std::string from;
    std::string to;
    std::string where;
};

/// Arrows between folders of `rules` in the text evener_write_link_lists writes.
std::vector<Arrow> arrows_of_links(std::string_view link_lists, FolderRules const& rules);

/// Arrows between folders of `rules` in the quoted #include lines of the sources under `root`.
std::vector<Arrow> arrows_of_includes(std::filesystem::path const& root, FolderRules const& rules);

/// One line for each arrow that the rules do not allow.
std::vector<std::string> forbidden(std::vector<Arrow> const& arrows, FolderRules const& rules);

/// The whole text of a file; throws core::IoError.
std::string read_text(std::filesystem::path const& path);

/// All .hpp, .cpp, .cuh and .cu files under `folder`, in order.
std::vector<std::filesystem::path> sources_under(std::filesystem::path const& folder);

} // namespace evener::structure
