// SPDX-License-Identifier: Apache-2.0
#pragma once

// A job on its ranks, from the job's words to a session that can run steps: what training and
// profiling have in common.

#include "app/device_routes.hpp"
#include "app/job_setup.hpp"

#include <memory>
#include <string>

namespace evener::app {

/// What is decided before memory is taken: the same on all ranks, but for the rank's own device.
struct PlannedJob {
    job::Job const& job;       ///< with the plan in force; outlives this
    model::Model const& model; ///< outlives this
    Engine engine;
    program::Plan plan;
    planner::Profile profile; ///< of before the first step
    DeviceRoutes routes;
    ProgramOptions lowering;
    program::Schedule schedule;
};

/// Opens and measures the devices, and decides on them; `job` then says the plan in words.
/// `stored_schedule`: the orders of a checkpoint, "" for none. Throws core::ConfigError on every
/// rank when the job is impossible on these ranks. Collective.
PlannedJob plan_job(comm::MpiSession const& mpi, job::Job& job, model::Model const& model,
                    std::string const& stored_schedule);

/// What a rank takes of its node's memory, in bytes.
struct HostMemory {
    std::int64_t arena = 0;    ///< 0 where it is in a GPU's memory
    std::int64_t homes = 0;    ///< pinned: what is offloaded
    std::int64_t staging = 0;  ///< pinned besides
    std::int64_t snapshot = 0; ///< its part of the node's snapshots, where the job saves

    std::int64_t total() const { return arena + homes + staging + snapshot; }
};

/// Without snapshots.
HostMemory host_memory(PlannedJob const& planned, Programs const& programs, core::RankId rank);

struct JobSession {
    /// `host_bytes`: of this rank. `status`: null where nobody asks. Throws on every rank:
    /// core::ConfigError where MPI has too few tags for the plan's messages, core::AgreedError
    /// where a node has less memory than its ranks need together, or one cannot get its own.
    /// Collective.
    JobSession(comm::MpiSession const& mpi, PlannedJob const& planned, Programs programs,
               std::int64_t host_bytes, runtime::Status* status);

    comm::Transport transport;
    std::unique_ptr<runtime::Session> session; ///< uses the transport and the planned job
};

} // namespace evener::app
