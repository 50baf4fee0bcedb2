// SPDX-License-Identifier: Apache-2.0
#include "cluster/processors.hpp"
#include "comm/keepalive.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"
#include "job/print.hpp"
#include "program/schedule_text.hpp"
#include "runtime/plan_conversion.hpp"
#include "runtime/shared_loading.hpp"
#include "runtime/signals.hpp"
#include "runtime/trainer.hpp"

#include "app/job_tokens.hpp"
#include "app/pictures.hpp"
#include "app/planned_job.hpp"
#include "app/resume.hpp"
#include "app/run_folder.hpp"
#include "app/schedule_choice.hpp"
#include "app/schedule_exchange.hpp"
#include "app/start_table.hpp"
#include "app/step_tracer.hpp"
#include "app/visibility.hpp"
#include "app/watching.hpp"
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>

namespace evener::app {

namespace {

core::log::Level log_level(job::LogLevel level) {
    return static_cast<core::log::Level>(level);
}

void warn_of_missing_keepalive(comm::MpiSession const& mpi) {
    std::string const hint = comm::missing_keepalive(std::getenv, mpi.hosts(), mpi.library());
    if (!hint.empty())
        core::log::root(core::log::Level::warn, "{}", hint);
}

/// Of all ranks that have work, each in the type it computes in.
double working_gflops(PlannedJob const& planned) {
    double sum = 0;
    for (program::Group const& group : planned.plan.groups)
        for (std::size_t member = 0; member < group.ranks.size(); ++member)
            if (group.shares[member] > 0)
                sum += planned.engine.ranks[group.ranks[member].index()].rate(group.compute);
    return sum;
}

/// This rank's part of its node's snapshots for checkpoints and for gradients. Collective.
std::int64_t snapshot_bytes(comm::MpiSession const& mpi, PlannedJob const& planned,
                            Programs const& programs, std::vector<bool> const& may_write) {
    runtime::SavingRanks const ranks{mpi.world(), mpi.node(), may_write};
    auto const bytes = [&](std::vector<std::string> const& kinds) {
        return runtime::snapshot_bytes(
                   runtime::savers_of(ranks, *programs.train, planned.model, kinds))
            .at(static_cast<std::size_t>(mpi.rank()));
    };
    std::int64_t const gradients =
        planned.job.log.gradients.empty() ? 0 : bytes({std::string{runtime::kind_gradients}});
    return bytes(runtime::state_kinds(has_adamw(planned.job))) + gradients;
}

/// Of the start table, made elsewhere.
struct StartLines {
    std::string sites;
    std::string prediction;
};

/// `memory`: of this rank. Collective.
void print_start(comm::MpiSession const& mpi, PlannedJob const& planned, Programs const& programs,
                 HostMemory const& memory, StartLines const& lines) {
    OtherMemory mine;
    mine.outside = cluster::resident_bytes();
    mine.snapshot = memory.snapshot;
    mine.staging = memory.staging;
    std::vector<OtherMemory> other;
    for (auto const& rank :
         comm::all_gather_values(mpi.world(), std::span<OtherMemory const>{&mine, 1}))
        other.push_back(rank.front());
    if (mpi.rank() != 0)
        return;
    fmt::print(stderr, "{}\n{}{}{}\n{}\n{} parameters\n{}\n\n", machine_table(mpi, planned.engine),
               plan_table(programs.evaluate.plan, planned.model),
               routes_table(planned.routes, planned.engine), lines.sites,
               memory_table(*programs.train, other), planned.model.parameter_elements(),
               lines.prediction);
}

void load_or_initialize(comm::MpiSession const& mpi, runtime::Session& session, job::Job const& job,
                        Resume const& resume) {
    if (resume.source().empty()) {
        runtime::initialize_parameters(session, job.run.seed);
        return;
    }
    std::unique_ptr<checkpoints::CheckpointReader> reader;
    together(mpi, resume.seen[static_cast<std::size_t>(mpi.rank())], [&] {
        reader = std::make_unique<checkpoints::CheckpointReader>(resume.source(),
                                                                 checkpoints::Check::whole_reads);
    });
    auto const what =
        resume.folder.empty() ? runtime::Load::parameters : runtime::Load::parameters_and_moments;
    together(mpi, true, [&] {
        runtime::load_shared(mpi.world(), runtime::FileReaders{resume.seen}, session, reader.get(),
                             what, has_adamw(job));
    });
}

/// Who does not see what, and what is done about it; "" where all see all.
std::string sites_lines(comm::MpiSession const& mpi, std::vector<bool> const& out,
                        std::vector<bool> const& data) {
    std::string lines;
    if (std::string const blind = blind_ranks(mpi, out); !blind.empty())
        lines += fmt::format("ranks {} do not share the run folder: others write and load for "
                             "them\n",
                             blind);
    if (std::string const blind = blind_ranks(mpi, data); !blind.empty())
        lines += fmt::format("ranks {} do not see the same data as rank 0: others read it for "
                             "them\n",
                             blind);
    return lines;
}

/// The job's limit on rank 0, from `started` on, which it also says.
std::optional<runtime::Deadline> find_deadline(job::Job const& job,
                                               std::chrono::steady_clock::time_point started) {
    if (!core::log::is_root())
        return std::nullopt;
    std::chrono::duration<double> const unix_now =
        std::chrono::system_clock::now().time_since_epoch();
    runtime::DeadlineChoice const choice =
        runtime::choose_deadline(job.run, started, std::getenv, unix_now.count());
    if (!choice.line.empty())
        core::log::root(choice.deadline ? core::log::Level::info : core::log::Level::warn, "{}",
                        choice.line);
    return choice.deadline;
}

core::ExitCode run(comm::MpiSession const& mpi, JobOptions const& options,
                   std::chrono::steady_clock::time_point started) {
    core::log::configure(mpi.rank(), core::log::Level::info);
    job::Job job = read_job(mpi, options);
    core::log::configure(mpi.rank(), log_level(job.log.level));
    warn_of_missing_keepalive(mpi);
    if (options.print_config) {
        if (mpi.rank() == 0)
            fmt::print("{}", job::print_job(job));
        return core::ExitCode::done;
    }
    std::optional<runtime::Deadline> const deadline = find_deadline(job, started);
    model::Model const model{runtime::model_config(job.model)};
    JobData const data = open_data(mpi, job);
    RunFolder folder{mpi, job.run.out};
    Resume const resume = find_resume(mpi, job, model, data.fingerprint);
    if (resume.plan) {
        job.plan.groups = resume.plan->groups;
        job.plan.chunks = resume.plan->chunks;
    }
    PlannedJob const planned = plan_job(mpi, job, model, resume.schedule_csv);
    Programs programs = make_programs(planned.plan, model, &planned.schedule, planned.lowering);
    program::Timeline const predicted = predict(*programs.train, model, planned.profile).timeline;
    runtime::ComputePrediction const prediction = runtime::compute_prediction(
        *programs.train, predicted, planned.profile.source, !job.plan.profile.empty());
    HostMemory memory = host_memory(planned, programs, core::RankId{mpi.rank()});
    memory.snapshot = snapshot_bytes(mpi, planned, programs, folder.shared);
    print_start(mpi, planned, programs, memory,
                {sites_lines(mpi, folder.shared, data.seen),
                 prediction_line(*programs.train, predicted, planned.profile.source,
                                 !job.plan.profile.empty())});
    RunTexts const texts{job::print_job(job), job::print_plan(job.plan),
                         program::print_schedule(planned.schedule)};
    folder.write(mpi, texts);

    JobSession const ready{mpi, planned, std::move(programs), memory.total(), &folder.status};
    runtime::Session& session = *ready.session;
    folder.status.enter(runtime::Phase::load, resume.state.step);
    load_or_initialize(mpi, session, job, resume);

    JobTokens const tokens{mpi, data, job, session, resume.state};
    StepTracer tracer{mpi, job, session, planned.profile};
    ScheduleExchange exchange{mpi, job, planned.lowering, session};
    std::unique_ptr<runtime::Watchdog> const watchdog =
        start_watchdog(job.run, folder.status, session, predicted.seconds());
    runtime::Trainer trainer{
        {.job = job,
         .mpi = mpi,
         .session = session,
         .tokens = tokens.train(),
         .validation = tokens.validation(),
         .validation_batches = core::div_up(data.validation_samples, job.train.batch_size),
         .state = resume.state,
         .model = model.description(),
         .job_toml = texts.job,
         .plan_toml = texts.plan,
         .schedule_csv = has_to_be_kept(job.plan) ? texts.schedule : "",
         .creator = fmt::format("evener {} ({})", core::version, core::commit()),
         .matrix_gflops = working_gflops(planned),
         .may_write = folder.shared,
         .after_pass = [&](std::int64_t step) { tracer.after_pass(step); },
         .exchange_schedule = [&] { return exchange.run(); },
         .deadline = deadline,
         .status = &folder.status,
         .watchdog = watchdog.get(),
         .prediction = prediction}};
    if (resume.state.step >= job.train.steps)
        core::log::root(core::log::Level::info,
                        "step {} is done already; raise 'train.steps' ({}) to go on",
                        resume.state.step, job.train.steps);
    return trainer.run() == runtime::RunEnd::finished ? core::ExitCode::done
                                                      : core::ExitCode::resumable;
}

} // namespace

core::ExitCode train(JobOptions const& options) {
    auto const started = std::chrono::steady_clock::now();
    runtime::catch_stop_signals();
    return run_mpi_job([&](comm::MpiSession const& mpi) { return run(mpi, options, started); });
}

} // namespace evener::app
