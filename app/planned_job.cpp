// SPDX-License-Identifier: Apache-2.0
#include "app/planned_job.hpp"

#include "runtime/pinned_memory.hpp"

#include "app/schedule_choice.hpp"
#include <fmt/format.h>

#include <algorithm>

namespace evener::app {

namespace {

/// The larger of a training step's and an evaluation's, which share it.
std::int64_t arena_bytes(Programs const& programs, core::RankId rank) {
    return std::max(programs.train->programs[rank.index()].arena_bytes,
                    programs.evaluate.programs[rank.index()].arena_bytes);
}

bool keeps_gradients(job::Job const& job) {
    return !job.log.gradients.empty();
}

/// Of a rank with a GPU.
runtime::PinnedNeeds pinned_needs(PlannedJob const& planned, Programs const& programs,
                                  core::RankId rank) {
    program::ProgramSet const* const sets[] = {&*programs.train, &programs.evaluate};
    runtime::DeviceExchange const exchange = planned.routes.exchange();
    return runtime::pinned_needs({.sets = sets,
                                  .rank = rank,
                                  .model = planned.model,
                                  .exchange = exchange,
                                  .own_memory = true,
                                  .keep_gradients = keeps_gradients(planned.job)});
}

void require_tags(comm::Transport const& transport, program::Plan const& plan) {
    if (plan.microbatch_count() * std::ssize(plan.chunks) > transport.max_tag())
        throw core::ConfigError{fmt::format(
            "{} microbatches over {} chunks need more message tags than MPI has ({}); raise "
            "'train.microbatch_size'",
            plan.microbatch_count(), plan.chunks.size(), transport.max_tag())};
}

} // namespace

PlannedJob plan_job(comm::MpiSession const& mpi, job::Job& job, model::Model const& model,
                    std::string const& stored_schedule) {
    Engine engine = start_engine(mpi, job.run, model.config(), job.train.microbatch_size);
    PlanChoice choice = choose_plan(mpi, engine, job, model);
    program::Plan const& plan = choice.plan;
    DeviceRoutes routes = choose_device_routes(mpi, engine, job.run, plan);
    ProgramOptions lowering = program_options(mpi, engine, job, plan, model, choice.profile);
    program::Schedule schedule =
        make_schedule(mpi, job.plan, plan, model, lowering, stored_schedule);
    return {job,
            model,
            std::move(engine),
            std::move(choice.plan),
            std::move(choice.profile),
            std::move(routes),
            std::move(lowering),
            std::move(schedule)};
}

HostMemory host_memory(PlannedJob const& planned, Programs const& programs, core::RankId rank) {
    HostMemory memory;
    if (!planned.engine.device->has_own_memory()) {
        memory.arena = arena_bytes(programs, rank);
        return memory;
    }
    runtime::PinnedNeeds const pinned = pinned_needs(planned, programs, rank);
    memory.homes = pinned.homes;
    memory.staging = pinned.total() - pinned.homes;
    return memory;
}

JobSession::JobSession(comm::MpiSession const& mpi, PlannedJob const& planned, Programs programs,
                       std::int64_t host_bytes, runtime::Status* status)
    : transport{mpi.world().get(), comm::TransportOptions::from_environment()} {
    require_tags(transport, planned.plan);
    require_node_memory(mpi, host_bytes);
    core::RankId const rank{mpi.rank()};
    together(mpi, true, [&] {
        session.reset(new runtime::Session{
            {.rank = rank,
             .model = planned.model,
             .cache = *planned.engine.cache,
             .transport = transport,
             .train = std::move(programs.train),
             .evaluate = std::move(programs.evaluate),
             .device_workspace_bytes = programs.device_workspace_bytes[rank.index()],
             .arena = {planned.engine.device->threads()},
             .adamw = has_adamw(planned.job),
             .keep_gradients = keeps_gradients(planned.job),
             .exchange = planned.routes.exchange(),
             .status = status}});
    });
}

} // namespace evener::app
