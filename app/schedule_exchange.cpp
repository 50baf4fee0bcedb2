// SPDX-License-Identifier: Apache-2.0
#include "app/schedule_exchange.hpp"

#include "core/log.hpp"
#include "io/files.hpp"
#include "program/schedule_text.hpp"

#include "app/job_setup.hpp"

namespace evener::app {

std::optional<std::string> ScheduleExchange::run() {
    try {
        return exchange();
    } catch (core::Error const& error) {
        // Every rank meets it: a ConfigError of the same input, or what all agreed on.
        core::log::root(core::log::Level::warn, "the schedule stays as it was: {}", error.what());
    }
    return std::nullopt;
}

std::string ScheduleExchange::exchange() {
    if (job_.plan.schedule_file.empty())
        throw core::ConfigError{
            "SIGUSR2 asks for another schedule, but the job has no 'plan.schedule_file' (it is "
            "read "
            "again then); start the job with one, such as the schedule.csv of its run folder"};
    program::Plan const& plan = session_.plan();
    program::Schedule const schedule =
        make_schedule(mpi_, job_.plan, plan, session_.model(), options_, "");
    program::ProgramSet set;
    together(mpi_, true,
             [&] { set = make_train_programs(plan, session_.model(), schedule, options_); });
    std::int64_t const bytes = set.programs[static_cast<std::size_t>(mpi_.rank())].arena_bytes;
    require_node_memory(mpi_, bytes > session_.arena_bytes() ? bytes : 0);
    together(mpi_, true, [&] { session_.exchange_train(std::move(set)); });
    std::string const text = program::print_schedule(schedule);
    together(mpi_, mpi_.rank() == 0,
             [&] { io::write_file_atomically(job_.run.out + "/schedule.csv", text); });
    core::log::root(core::log::Level::info, "schedule exchanged for '{}'", job_.plan.schedule_file);
    return text;
}

} // namespace evener::app
