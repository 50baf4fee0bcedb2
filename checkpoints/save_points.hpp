// SPDX-License-Identifier: Apache-2.0
#pragma once

// The places of a save at which drills end a process: after each of them another part of the save is
// on the disk. Who saves may be told when one is passed; nothing here knows what happens then.

#include <array>
#include <functional>
#include <string_view>

namespace evener::checkpoints {

/// In the order in which a save passes them.
enum class SavePoint {
    begin_start,     ///< nothing was touched
    begin_folder,    ///< leftovers are removed, the `.tmp` folder is there
    snapshot_start,  ///< before slices are copied
    snapshot_copied, ///< they are copied
    write_start,     ///< before the data file is made
    write_slice,     ///< between two slices
    write_flush,     ///< all slices are written, HDF5 may hold its structure back
    write_sync,      ///< the file is closed and in the page cache
    write_synced,    ///< it is on the disk
    write_verified,  ///< it was read back
    results_start,   ///< before the writers' results are exchanged
    commit_start,    ///< before the side files are written
    commit_manifest, ///< between manifest.json.tmp and its rename
    commit_sealed,   ///< manifest.json is there
    commit_renames,  ///< an old checkpoint of the step is moved away, the new one not in its place
    commit_moved,    ///< the folder is in its place, `latest` names the one before
    commit_named,    ///< `latest` names it
    prune_delete,    ///< an old checkpoint is renamed and not deleted yet
};

/// Their names, in the same order.
inline constexpr std::array<std::string_view, 18> save_point_names{
    "begin.start",   "begin.folder", "snapshot.start",  "snapshot.copied", "write.start",
    "write.slice",   "write.flush",  "write.sync",      "write.synced",    "write.verified",
    "results.start", "commit.start", "commit.manifest", "commit.sealed",   "commit.renames",
    "commit.moved",  "commit.named", "prune.delete"};

/// Called at each point by the thread that passes it; may be empty.
using AtPoint = std::function<void(SavePoint)>;

inline void pass(AtPoint const& at, SavePoint point) {
    if (at)
        at(point);
}

} // namespace evener::checkpoints
