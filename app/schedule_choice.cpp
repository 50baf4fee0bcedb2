// SPDX-License-Identifier: Apache-2.0
#include "app/schedule_choice.hpp"

#include "core/log.hpp"
#include "io/files.hpp"
#include "program/schedule_text.hpp"
#include "schedule/choose.hpp"
#include "schedule/deal.hpp"
#include "schedule/generators.hpp"
#include "schedule/schedule_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace evener::app {

ScheduleOrigin schedule_origin(job::Plan const& plan, std::string const& stored) {
    constexpr char const* of_checkpoint = "the checkpoint's schedule.csv";
    if (plan.schedule_file.empty())
        return stored.empty() ? ScheduleOrigin{} : ScheduleOrigin{of_checkpoint, stored, true};
    try {
        return {plan.schedule_file, io::read_file(plan.schedule_file)};
    } catch (core::IoError const& error) {
        if (stored.empty())
            throw core::ConfigError{fmt::format("'plan.schedule_file' cannot be read ({}); name a "
                                                "CSV file of orders, or leave it out",
                                                error.what())};
        core::log::root(core::log::Level::info,
                        "'{}' cannot be read: going on with the schedule of the checkpoint",
                        plan.schedule_file);
        return {of_checkpoint, stored};
    }
}

program::Plan with_best_deals(program::Plan plan, model::Model const& model,
                              planner::Profile const& profile) {
    if (plan.schedule != job::name_of(job::Schedule::automatic))
        return plan;
    auto const fastest = [&](program::Plan const& dealt) {
        schedule::WorkGraph const graph =
            schedule::make_work_graph(dealt, model, planner::costs_of(profile, dealt, model));
        double seconds = std::numeric_limits<double>::infinity();
        for (std::string_view const name : schedule::generator_names()) {
            program::Plan named = dealt;
            named.schedule = name;
            if (schedule::generator_problem(named, name).empty())
                seconds = std::min(
                    seconds, evaluate(graph, schedule::generate(named, program::ProgramKind::train))
                                 .seconds);
        }
        return seconds;
    };
    program::Costs const costs = planner::costs_of(profile, plan, model);
    return schedule::choose_deals(std::move(plan), costs, fastest).plan;
}

bool has_to_be_kept(job::Plan const& plan) {
    return !plan.schedule_file.empty() || plan.schedule == job::Schedule::automatic ||
           plan.schedule == job::Schedule::greedy;
}

program::Schedule make_schedule(program::Plan const& plan, model::Model const& model,
                                planner::Profile const& profile, ScheduleOrigin const& origin) {
    if (!origin.file.empty()) {
        try {
            return schedule::read_schedule(origin.text, origin.file, plan);
        } catch (core::ConfigError const&) {
            if (!origin.searched)
                throw;
            core::log::root(core::log::Level::info,
                            "{} is for another batch or plan: searching anew", origin.file);
        }
    }
    bool const automatic = plan.schedule == job::name_of(job::Schedule::automatic);
    if (!automatic && plan.schedule != job::name_of(job::Schedule::greedy))
        return schedule::generate(plan, program::ProgramKind::train);
    schedule::WorkGraph const graph =
        schedule::make_work_graph(plan, model, planner::costs_of(profile, plan, model));
    if (!automatic)
        return schedule::greedy(graph);
    schedule::Choice choice = schedule::choose(plan, graph);
    core::log::root(
        core::log::Level::info, "schedule \"auto\": {} of {} tried is the fastest by {}",
        choice.candidates[choice.chosen].name, choice.candidates.size(), profile.source);
    return std::move(choice.schedule);
}

program::Schedule make_schedule(comm::MpiSession const& mpi, job::Plan const& words,
                                program::Plan const& plan, model::Model const& model,
                                planner::Profile const& profile, std::string const& stored) {
    std::string text;
    together(mpi, mpi.rank() == 0, [&] {
        text = program::print_schedule(
            make_schedule(plan, model, profile, schedule_origin(words, stored)));
    });
    return program::parse_schedule(mpi.world().broadcast(text), "schedule").schedule;
}

} // namespace evener::app
