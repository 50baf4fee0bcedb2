// SPDX-License-Identifier: Apache-2.0
#pragma once

// Another order of work for a running job: on SIGUSR2 the job's schedule file is read again between
// two steps. Whatever is wrong with it is said, and training goes on under the old one.

#include "runtime/session.hpp"

#include "app/schedule_choice.hpp"

namespace evener::app {

class ScheduleExchange {
  public:
    ScheduleExchange(comm::MpiSession const& mpi, job::Job const& job,
                     ProgramOptions const& options, runtime::Session& session)
        : mpi_{mpi}, job_{job}, options_{options}, session_{session} {}

    /// The orders now in force as CSV, or nothing where they stay as they were. Collective, between
    /// two passes. Throws core::AgreedError when memory cannot be had for programs that all ranks
    /// had agreed on: some then have them and others do not, so the job must end.
    std::optional<std::string> run();

  private:
    struct Next {
        std::string csv;
        program::ProgramSet programs;
    };

    /// Throws core::ConfigError or core::AgreedError on every rank; nothing is changed then.
    Next prepare() const;
    /// The same, where the rank's new program needs more memory than there is.
    void require_memory(program::Program const& program) const;

    comm::MpiSession const& mpi_;
    job::Job const& job_;
    ProgramOptions const& options_;
    runtime::Session& session_;
};

} // namespace evener::app
