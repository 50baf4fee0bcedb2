// SPDX-License-Identifier: Apache-2.0
#pragma once

// What commands that run training steps do first: the job, its data and its plan, the same on all
// ranks.

#include "io/token_file.hpp"

#include "app/commands.hpp"
#include "app/engine.hpp"

namespace evener::app {

/// Rank 0 reads the file, so that nodes that do not see it still agree on every word. Throws
/// core::ConfigError on every rank. Collective.
job::Job read_job(comm::MpiSession const& mpi, JobOptions const& options);

struct JobData {
    std::optional<io::TokenDataset> train; ///< none on ranks that do not see the data
    std::optional<io::TokenDataset> validation;
    std::string fingerprint; ///< of the training data
    std::int64_t validation_samples = 0;
    std::vector<bool> seen; ///< by rank; rank 0 does
};

/// The files of rank 0, and who sees the same. Throws core::AgreedError when rank 0 cannot open
/// them. Collective.
JobData open_data(comm::MpiSession const& mpi, job::Job const& job);

struct PlanChoice {
    program::Plan plan;
    planner::Profile profile; ///< by which deals, searches and predictions go
};

/// The job's plan, or the default one where it names no groups; `job` then says it in words, with
/// the compute types and deals in force. All ranks come to the same. Throws core::ConfigError on
/// every rank when it is impossible. Collective.
PlanChoice choose_plan(comm::MpiSession const& mpi, Engine const& engine, job::Job& job,
                       model::Model const& model);

/// What lowering the plan goes by in this job; rank 0 verifies for all. Collective.
ProgramOptions program_options(comm::MpiSession const& mpi, Engine& engine, job::Job const& job,
                               program::Plan const& plan, model::Model const& model,
                               planner::Profile const& profile);

/// Bytes that each rank's arena may have: what the job says, and what its GPU has left. Empty where
/// nothing limits any rank.
std::vector<std::int64_t> memory_limit_bytes(job::Job const& job,
                                             std::vector<RankFacts> const& ranks);

/// All ranks of a node ask whether their arenas, snapshots and what they offload fit it before one
/// of them allocates. Throws core::DeviceError on every rank. Collective.
void require_node_memory(comm::MpiSession const& mpi, std::int64_t bytes);

} // namespace evener::app
