// SPDX-License-Identifier: Apache-2.0
#pragma once

// The folder of a training run: held by one job at a time, on a file system that not all ranks need
// share.

#include "io/files.hpp"
#include "runtime/status.hpp"

#include "app/mpi_job.hpp"

#include <optional>
#include <string>
#include <vector>

namespace evener::app {

/// What a run says of itself, as text.
struct RunTexts {
    std::string job;      ///< with the plan in force
    std::string plan;     ///< of these, the part that another job can take over
    std::string schedule; ///< CSV
};

struct RunFolder {
    /// Rank 0 makes the folder, locks it and warns where the last run in it ended without a word;
    /// the others look whether they see it. Throws core::AgreedError where rank 0 cannot, another job
    /// holds it, or no checkpoint could be saved in it. Collective.
    RunFolder(comm::MpiSession const& mpi, std::string const& path);

    /// job.toml, plan.toml and schedule.csv. Throws core::AgreedError. Collective.
    void write(comm::MpiSession const& mpi, RunTexts const& texts) const;

    std::string path;
    std::optional<io::RunFolderLock> lock; ///< rank 0's
    std::vector<bool> shared;              ///< by rank, as ranks_that_share() says
    runtime::Status status;
};

} // namespace evener::app
