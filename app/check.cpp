// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"
#include "job/parse.hpp"
#include "job/print.hpp"
#include "model/model.hpp"
#include "runtime/plan_conversion.hpp"

#include "app/commands.hpp"
#include <fmt/format.h>

namespace evener::app {

core::ExitCode check(JobOptions const& options) {
    job::Job const job = job::parse_job(options.job, options.settings,
                                        {options.ranks, [](std::string const& line) {
                                             core::log::root(core::log::Level::warn, "{}", line);
                                         }});
    if (options.print_config) {
        fmt::print("{}", job::print_job(job));
        return core::ExitCode::done;
    }
    model::Model const model{runtime::model_config(job.model)};
    fmt::print("{}: fine (data, checkpoints, schedule file, profile and memory are looked at "
               "when training starts, the last three by 'evener plan' too); {} parameters, "
               "{} steps of {} sequences, {} groups planned\n",
               options.job, model.parameter_elements(), job.train.steps, job.train.batch_size,
               job.plan.groups.empty() ? "no" : fmt::to_string(job.plan.groups.size()));
    return core::ExitCode::done;
}

} // namespace evener::app
