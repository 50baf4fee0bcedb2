// SPDX-License-Identifier: Apache-2.0
#pragma once

// Traces of chosen training steps: what every rank measured, beside what was predicted before, as
// pictures in the run folder. A step is predicted from the layer times of the step before it, or,
// where there was none, from what the job started with; never from its own.

#include "comm/mpi_session.hpp"
#include "job/job.hpp"
#include "planner/profile.hpp"
#include "runtime/session.hpp"

namespace evener::app {

class StepTracer {
  public:
    /// Collective. `profile`: what was known before the first step.
    StepTracer(comm::MpiSession const& mpi, job::Job const& job, runtime::Session const& session,
               planner::Profile profile);

    /// Collective, after the training pass of every step, which count from 1. Files that cannot be
    /// written are a warning.
    void after_pass(std::int64_t step);

  private:
    bool traced(std::int64_t step) const;
    void write(std::int64_t step, program::Timeline const& measured, double clock_error) const;

    comm::MpiSession const& mpi_;
    job::Job const& job_;
    runtime::Session const& session_;
    std::vector<int> nodes_;   ///< of the ranks
    planner::Profile initial_; ///< before anything was measured
    planner::Profile profile_; ///< for the next step
};

} // namespace evener::app
