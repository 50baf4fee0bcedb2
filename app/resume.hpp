// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a job starts from: a checkpoint of its own run, one named by the job, or nothing.

#include "checkpoints/records.hpp"
#include "job/job.hpp"
#include "model/model.hpp"

#include "app/mpi_job.hpp"

#include <optional>
#include <string>
#include <vector>

namespace evener::app {

struct Resume {
    std::string folder;    ///< checkpoint to go on from; empty = start at step 0
    std::string init_from; ///< checkpoint that only gives the weights; empty = none
    checkpoints::TrainingState state;
    std::optional<job::Plan>
        plan; ///< of the checkpoint, when it goes on with the same groups or has none
    /// The checkpoint's orders of work for this plan, where a file or a search made them; else "".
    std::string schedule_csv;
    std::vector<bool> seen; ///< by rank: who sees the checkpoint; empty where there is none

    /// The checkpoint to load: "folder", else "init_from"; "" where there is none.
    std::string const& source() const { return folder.empty() ? init_from : folder; }
};

/// Collective. Throws core::ConfigError on every rank when the checkpoint is of another model,
/// optimizer, seed or data, naming the differences; core::CheckpointError when it is damaged.
Resume find_resume(comm::MpiSession const& mpi, job::Job const& job, model::Model const& model,
                   std::string const& data_fingerprint);

} // namespace evener::app
