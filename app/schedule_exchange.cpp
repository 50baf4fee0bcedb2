// SPDX-License-Identifier: Apache-2.0
#include "app/schedule_exchange.hpp"

#include "core/log.hpp"
#include "io/files.hpp"
#include "program/schedule_text.hpp"

#include "app/job_setup.hpp"

namespace evener::app {

namespace {

/// Of an error that every rank meets.
void say_it_stays(core::Error const& error) {
    core::log::root(core::log::Level::warn, "the schedule stays as it was: {}", error.what());
}

} // namespace

std::optional<std::string> ScheduleExchange::run() {
    Next next;
    try {
        next = prepare();
    } catch (core::ConfigError const& error) { // of the same input
        say_it_stays(error);
        return std::nullopt;
    } catch (core::AgreedError const& error) {
        say_it_stays(error);
        return std::nullopt;
    }
    // From here on no rank can go back: what fails now ends the job.
    together(mpi_, true, [&] { session_.exchange_train(std::move(next.programs)); });
    core::log::root(core::log::Level::info, "schedule exchanged for '{}'", job_.plan.schedule_file);
    try {
        together(mpi_, mpi_.rank() == 0,
                 [&] { io::write_file_atomically(job_.run.out + "/schedule.csv", next.csv); });
    } catch (core::AgreedError const& error) {
        core::log::root(core::log::Level::warn, "the run folder keeps the schedule before: {}",
                        error.what());
    }
    return std::move(next.csv);
}

ScheduleExchange::Next ScheduleExchange::prepare() const {
    if (job_.plan.schedule_file.empty())
        throw core::ConfigError{
            "SIGUSR2 asks for another schedule, but the job has no 'plan.schedule_file' (it is "
            "read again then); start the job with one, such as the schedule.csv of its run folder"};
    program::Plan const& plan = session_.plan();
    program::Schedule const schedule =
        make_schedule(mpi_, job_.plan, plan, session_.model(), options_, "");
    Next next{program::print_schedule(schedule), {}};
    together(mpi_, true, [&] {
        next.programs = make_train_programs(plan, session_.model(), schedule, options_);
    });
    require_memory(next.programs.programs[static_cast<std::size_t>(mpi_.rank())]);
    return next;
}

/// A larger arena or region of pinned memory is there beside the old one for a moment.
void ScheduleExchange::require_memory(program::Program const& program) const {
    bool const own_memory = session_.device().has_own_memory();
    bool const larger = program.arena_bytes > session_.arena_bytes();
    together(mpi_, own_memory && larger, [&] {
        runtime::require_device_memory(session_.device(), program, program.arena_bytes);
    });
    std::int64_t bytes = 0; // of the node's memory
    if (!own_memory && larger)
        bytes = program.arena_bytes;
    if (own_memory && program.pinned_bytes > session_.pinned().homes)
        bytes = session_.pinned().total() - session_.pinned().homes + program.pinned_bytes;
    require_node_memory(mpi_, bytes);
}

} // namespace evener::app
