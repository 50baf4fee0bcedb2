// SPDX-License-Identifier: Apache-2.0
#include "app/schedule_choice.hpp"

#include "core/log.hpp"
#include "io/files.hpp"
#include "program/schedule_text.hpp"
#include "schedule/choose.hpp"
#include "schedule/deal.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
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
    bool const dealt =
        std::any_of(plan.groups.begin(), plan.groups.end(), [](program::Group const& group) {
            return group.dispatch == program::Dispatch::dealt && group.deal.empty();
        });
    if (!dealt || plan.schedule != job::name_of(job::Schedule::automatic))
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

namespace {

/// The programs of the orders, whatever memory they need.
program::ProgramSet lower_anyway(program::Plan const& plan, model::Model const& model,
                                 ProgramOptions const& options, program::Schedule const& schedule) {
    return schedule::lower(plan, model, schedule,
                           {.device_workspace_bytes = options.device_workspace_bytes,
                            .moments = options.moments,
                            .costs = options.costs ? &*options.costs : nullptr});
}

/// Bytes of a rank's arena that the order of its work decides: what it keeps from forward to
/// backward, but for what is there for one backward at a time.
std::int64_t kept_bytes(program::Plan const& plan, program::Program const& program) {
    using program::BufferKind;
    program::MemoryTable const table = program::memory_table(program);
    auto const row = [&](BufferKind kind) { return table.bytes[static_cast<int>(kind)]; };
    if (program::offload_of(plan, program.rank).activations)
        return row(BufferKind::kept_for_weights);
    std::int64_t once = 0; // made by a Recompute
    for (program::Buffer const& buffer : program.buffers)
        if (buffer.kind == BufferKind::kept && plan.chunks[buffer.chunk.index()].recompute)
            once = std::max(once, buffer.bytes);
    return row(BufferKind::kept) - once + row(BufferKind::inputs) +
           row(BufferKind::kept_for_weights);
}

/// What each rank may keep from forward to backward: its limit less all that a schedule does not
/// change, as the programs of an order that needs many buffers have it.
std::vector<double> limits_of_kept(program::Plan const& plan, model::Model const& model,
                                   ProgramOptions const& options) {
    program::Plan wide = plan;
    wide.schedule = "breadth_first";
    auto const schedule = schedule::generate(wide, program::ProgramKind::train);
    std::vector<double> limits;
    for (program::Program const& program : lower_anyway(wide, model, options, schedule).programs) {
        std::int64_t const fixed = program.arena_bytes - kept_bytes(wide, program);
        limits.push_back(static_cast<double>(
            std::max<std::int64_t>(0, options.memory_limit_bytes[program.rank.index()] - fixed)));
    }
    return limits;
}

/// Lowers `limits` by what the programs of the orders have too much; whether there was any.
bool tighten(std::vector<double>& limits, program::Plan const& plan, model::Model const& model,
             ProgramOptions const& options, program::Schedule const& schedule) {
    bool changed = false;
    auto const set = lower_anyway(plan, model, options, schedule);
    for (std::size_t r = 0; r < limits.size(); ++r) {
        std::int64_t const over = set.programs[r].arena_bytes - options.memory_limit_bytes[r];
        if (over <= 0)
            continue;
        limits[r] = std::max(0.0, limits[r] - static_cast<double>(over));
        changed = true;
    }
    return changed;
}

/// Orders of the fastest generator whose programs fit the memory as lowering shares it out. Throws
/// what lowering says of the last one where none does.
program::Schedule fastest_that_fits(program::Plan const& plan, model::Model const& model,
                                    ProgramOptions const& options,
                                    schedule::WorkGraph const& graph) {
    std::vector<std::pair<double, program::Schedule>> candidates;
    for (std::string_view const name : schedule::generator_names()) {
        program::Plan named = plan;
        named.schedule = name;
        if (!schedule::generator_problem(named, name).empty())
            continue;
        program::Schedule schedule = schedule::generate(named, program::ProgramKind::train);
        double const seconds = evaluate(graph, schedule).seconds;
        candidates.emplace_back(seconds, std::move(schedule));
    }
    std::stable_sort(candidates.begin(), candidates.end(),
                     [](auto const& a, auto const& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        try {
            make_train_programs(plan, model, candidates[i].second, options);
            return std::move(candidates[i].second);
        } catch (core::ConfigError const&) {
            if (i + 1 == candidates.size())
                throw;
        }
    }
    throw core::ConfigError{"no schedule suits the chunks of this plan"};
}

void report(schedule::Choice const& choice) {
    using core::log::Level;
    auto const& chosen = choice.candidates[choice.chosen];
    core::log::root(Level::info,
                    "schedule \"auto\": {} of {} tried, {:.4g} ms by the costs in force (no order "
                    "is faster than {:.4g})",
                    chosen.name, choice.candidates.size(), 1e3 * choice.seconds,
                    1e3 * choice.lower_bound);
    for (schedule::Candidate const& candidate : choice.candidates)
        core::log::root(Level::debug, "  {:14} {}", candidate.name,
                        !candidate.problem.empty()
                            ? candidate.problem
                            : fmt::format("{:.4g} ms{}", 1e3 * candidate.seconds,
                                          candidate.fits ? "" : ", needs too much memory"));
}

constexpr int most_tries = 6; // of limits, each tighter by what the one before had too much

/// Memory beyond what the search counts (workspaces, buffers of links, gaps) differs between
/// orders, so that the limits are tightened until the programs fit.
program::Schedule search(program::Plan const& plan, model::Model const& model,
                         ProgramOptions const& options, bool automatic) {
    EVENER_EXPECT(options.costs.has_value());
    bool const limited = !options.memory_limit_bytes.empty();
    std::vector<double> limits;
    if (limited)
        limits = limits_of_kept(plan, model, options);
    for (int tries = 0; tries < most_tries; ++tries) {
        schedule::WorkGraph const graph =
            schedule::make_work_graph(plan, model, *options.costs, limits);
        schedule::Choice choice;
        try {
            if (automatic)
                choice = schedule::choose(plan, graph);
            else
                choice.schedule = schedule::greedy(graph);
        } catch (core::ConfigError const&) {
            break; // not one microbatch within the limits, which are estimates
        }
        if (limited && tighten(limits, plan, model, options, choice.schedule))
            continue;
        if (automatic)
            report(choice);
        return std::move(choice.schedule);
    }
    core::log::root(core::log::Level::info,
                    "no order that the search finds fits the memory; taking the fastest of the "
                    "named schedules that does");
    return fastest_that_fits(plan, model, options,
                             schedule::make_work_graph(plan, model, *options.costs));
}

} // namespace

program::Schedule make_schedule(program::Plan const& plan, model::Model const& model,
                                ProgramOptions const& options, ScheduleOrigin const& origin) {
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
    return search(plan, model, options, automatic);
}

program::Schedule make_schedule(comm::MpiSession const& mpi, job::Plan const& words,
                                program::Plan const& plan, model::Model const& model,
                                ProgramOptions const& options, std::string const& stored) {
    std::string text;
    together(mpi, mpi.rank() == 0, [&] {
        text = program::print_schedule(
            make_schedule(plan, model, options, schedule_origin(words, stored)));
    });
    return program::parse_schedule(mpi.world().broadcast(text), "schedule").schedule;
}

} // namespace evener::app
