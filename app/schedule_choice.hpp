// SPDX-License-Identifier: Apache-2.0
#pragma once

// The order of work of a training step: from a file, by a search, or by the plan's generator.

#include "job/job.hpp"
#include "model/model.hpp"
#include "program/plan.hpp"
#include "program/schedule.hpp"

#include "app/engine.hpp"

#include <string>

namespace evener::app {

/// Orders that exist already, as CSV.
struct ScheduleOrigin {
    std::string file; ///< for messages; empty = there are none
    std::string text;
    bool searched = false; ///< a search can make others where these do not fit the plan any more
};

/// The job's schedule file, or what a checkpoint holds, which also stands in for a file that is
/// gone. Throws core::ConfigError where the job names a file that cannot be read.
ScheduleOrigin schedule_origin(job::Plan const& plan, std::string const& stored);

/// The plan with a rank for each microbatch of the groups that deal them without saying to whom:
/// the deals with which the generators do best. For the schedule "auto"; otherwise the plan as it
/// is.
program::Plan with_best_deals(program::Plan plan, model::Model const& model,
                              planner::Profile const& profile);

/// A generator's orders can be made again from the plan; others have to be kept.
bool has_to_be_kept(job::Plan const& plan);

/// Throws core::ConfigError when the orders are not the plan's, or the schedule does not suit its
/// chunks. A search goes by the costs and the memory limit of the options.
program::Schedule make_schedule(program::Plan const& plan, model::Model const& model,
                                ProgramOptions const& options, ScheduleOrigin const& origin);

/// The same for the ranks of a job: rank 0 reads and searches for all. `stored` is what the
/// checkpoint holds, "" for nothing. Collective.
program::Schedule make_schedule(comm::MpiSession const& mpi, job::Plan const& words,
                                program::Plan const& plan, model::Model const& model,
                                ProgramOptions const& options, std::string const& stored);

} // namespace evener::app
