// SPDX-License-Identifier: Apache-2.0
#pragma once

// The checkpoints of one run folder: how one comes into being, which ones there are, which are
// deleted. The invariant: a folder `step-NNNNNNNN` with a manifest is complete, whenever and
// wherever a process was killed, and until a newer one is complete nothing touches the newest.
//
//   rank 0: begin -> every writer: SliceWriter ... finish -> rank 0: commit, prune
//
// The caller holds the lock of the run folder: begin() takes every `.tmp` folder for a dead one.

#include "checkpoints/records.hpp"
#include "checkpoints/save_points.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace evener::checkpoints {

/// Everything about a checkpoint but its slices.
struct Description {
    std::string creator;
    TrainingState state;
    KeyValues model;
    std::vector<std::string> kinds;
    std::vector<TensorInfo> tensors;
    std::string job_toml;
    std::string plan_toml;         ///< empty: no plan.toml
    std::string schedule_csv = {}; ///< empty: no schedule.csv
};

struct CheckpointInfo {
    std::string folder;
    Manifest manifest;
};

/// How much is looked at: the manifest and file sizes (milliseconds), or every byte.
enum class Depth { sizes, hashes };

/// Called with one line for each thing that looks like a checkpoint and is none.
using Notice = std::function<void(std::string const&)>;

/// `step-00000120`
std::string step_folder_name(std::int64_t step);

/// Throws IoError where no save could end well: something that is no file has the name of one that
/// every save writes. begin() asks too; whoever trains asks before the first step.
void require_places(std::string const& out);

/// Makes `out`/step-NNNNNNNN.tmp for the writers and returns its path. Removes what killed saves
/// left. Throws IoError if the folder cannot be made or `bytes` (payload_bytes) exceed the free
/// space.
std::string begin(std::string const& out, std::int64_t step, std::int64_t bytes,
                  AtPoint const& at = {});

/// Writes the texts, model.h5 and last the manifest, then renames the folder into place, replacing
/// a checkpoint of the same step, seed, data and model, and names it in `out`/latest. All of it synced
/// to the disk. Whatever else is in its place is moved to `step-NNNNNNNN.replaced`, with a notice.
/// Throws CheckpointError if the slices do not tile the tensors or a data file is not as its writer
/// said.
CheckpointInfo commit(std::string const& out, Description const& description,
                      std::vector<WriterResult> const& writers, AtPoint const& at = {},
                      Notice const& notice = {});

/// Reads the manifest of a checkpoint back from its place and looks at the sizes of its files. Throws
/// CheckpointError unless all is as it was committed.
void confirm(CheckpointInfo const& committed);

/// Removes the `.tmp` folder of a save that failed. Never throws.
void abandon(std::string const& out, std::int64_t step) noexcept;

/// The checkpoints in `out`, newest first; empty if `out` does not exist.
std::vector<CheckpointInfo> list(std::string const& out, Depth depth, Notice const& notice = {});
/// The first of list(), without looking at older ones than needed.
std::optional<CheckpointInfo> find_newest_valid(std::string const& out, Depth depth,
                                                Notice const& notice = {});

/// What has the name of a checkpoint in `out`, whole or not.
struct Candidate {
    std::int64_t step = 0; ///< by its name
    std::string folder;
};

/// All of them, newest first: `step-N`, or `step-N.old` where `step-N` is not.
std::vector<Candidate> candidates(std::string const& out);

/// All that is wrong with one, every byte hashed: verify(), and that it is of the step it is named by.
std::vector<std::string> faults_of(Candidate const& candidate);

/// Which checkpoints of a run stay.
struct Retention {
    std::int64_t newest = 0; ///< so many; 0 = all
    std::int64_t every = 0;  ///< and those whose step is a multiple of it; 0 = no others
};

/// Deletes what `retention` does not keep and returns the folders deleted. Never the one committed
/// last, also if its step is not the highest (a run resumed from an older one). Folders that are no
/// valid checkpoints are neither counted nor touched.
std::vector<std::string> prune(std::string const& out, Retention retention, AtPoint const& at = {});

} // namespace evener::checkpoints
