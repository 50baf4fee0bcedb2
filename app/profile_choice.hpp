// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the layers and links of a job cost in time, as far as it is known before a step has run.

#include "planner/profile.hpp"

#include "app/engine.hpp"

namespace evener::app {

/// The job's `plan.profile`, or an estimate from FLOPs and the ranks' matrix rates, with links and
/// copies that take no time. Throws core::ConfigError when the file cannot be read or is for another
/// model or number of ranks.
planner::Profile choose_profile(job::Job const& job, program::Plan const& plan,
                                model::Model const& model, std::vector<RankFacts> const& ranks);

/// The same for the ranks of a job: rank 0 reads for all, and where there is no file the links are
/// measured; so are the copies of GPUs that offload, where a file does not have them. Collective.
planner::Profile choose_profile(comm::MpiSession const& mpi, Engine const& engine,
                                job::Job const& job, program::Plan const& plan,
                                model::Model const& model);

} // namespace evener::app
