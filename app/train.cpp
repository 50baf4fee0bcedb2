// SPDX-License-Identifier: Apache-2.0
#include "cluster/processors.hpp"
#include "comm/keepalive.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"
#include "io/files.hpp"
#include "job/print.hpp"
#include "program/schedule_text.hpp"
#include "runtime/plan_conversion.hpp"
#include "runtime/shared_loading.hpp"
#include "runtime/signals.hpp"
#include "runtime/trainer.hpp"

#include "app/device_routes.hpp"
#include "app/job_setup.hpp"
#include "app/job_tokens.hpp"
#include "app/pictures.hpp"
#include "app/profile_choice.hpp"
#include "app/resume.hpp"
#include "app/schedule_choice.hpp"
#include "app/schedule_exchange.hpp"
#include "app/start_table.hpp"
#include "app/step_tracer.hpp"
#include "app/visibility.hpp"
#include "app/watching.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>

namespace evener::app {

namespace {

core::log::Level log_level(job::LogLevel level) {
    return static_cast<core::log::Level>(level);
}

/// By rank, in the type it computes in.
std::vector<double> rank_gflops(program::Plan const& plan, Engine const& engine) {
    std::vector<double> rates(engine.ranks.size());
    for (program::Group const& group : plan.groups)
        for (core::RankId const rank : group.ranks)
            rates[rank.index()] = engine.ranks[rank.index()].rate(group.compute);
    return rates;
}

/// Of all ranks that have work.
double working_gflops(program::Plan const& plan, std::vector<double> const& rates) {
    double sum = 0;
    for (program::Group const& group : plan.groups)
        for (std::size_t member = 0; member < group.ranks.size(); ++member)
            if (group.shares[member] > 0)
                sum += rates[group.ranks[member].index()];
    return sum;
}

/// Of the node's memory; a GPU's arena is in its own.
std::int64_t arena_bytes(Engine const& engine, Programs const& programs, core::RankId rank) {
    if (engine.device->has_own_memory())
        return 0;
    return std::max(programs.train->programs[rank.index()].arena_bytes,
                    programs.evaluate.programs[rank.index()].arena_bytes);
}

/// This rank's part of its node's snapshot for checkpoints, and of the one for gradients. Collective.
std::int64_t snapshot_bytes(comm::MpiSession const& mpi, Programs const& programs,
                            model::Model const& model, job::Job const& job,
                            std::vector<bool> const& may_write) {
    runtime::SavingRanks const ranks{mpi.world(), mpi.node(), may_write};
    auto const bytes = [&](std::vector<std::string> const& kinds) {
        return runtime::snapshot_bytes(runtime::savers_of(ranks, *programs.train, model, kinds))
            .at(static_cast<std::size_t>(mpi.rank()));
    };
    std::int64_t const gradients =
        job.log.gradients.empty() ? 0 : bytes({std::string{runtime::kind_gradients}});
    return bytes(runtime::state_kinds(has_adamw(job))) + gradients;
}

/// Of the start table, made elsewhere.
struct StartLines {
    std::string sites;
    std::string routes;
    std::string prediction;
    std::int64_t staging = 0;  ///< of OtherMemory
    std::int64_t snapshot = 0; ///< the same
};

/// Collective.
void print_start(comm::MpiSession const& mpi, Engine const& engine, Programs const& programs,
                 model::Model const& model, StartLines const& lines) {
    OtherMemory mine;
    mine.outside = cluster::resident_bytes();
    mine.snapshot = lines.snapshot;
    mine.staging = lines.staging;
    std::vector<OtherMemory> other;
    for (auto const& rank :
         comm::all_gather_values(mpi.world(), std::span<OtherMemory const>{&mine, 1}))
        other.push_back(rank.front());
    if (mpi.rank() != 0)
        return;
    fmt::print(stderr, "{}\n{}{}{}\n{}\n{} parameters\n{}\n\n", machine_table(mpi, engine),
               plan_table(programs.evaluate.plan, model), lines.routes, lines.sites,
               memory_table(*programs.train, other), model.parameter_elements(), lines.prediction);
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
    if (std::string const hint = comm::missing_keepalive(std::getenv, mpi.hosts(), mpi.library());
        !hint.empty())
        core::log::root(core::log::Level::warn, "{}", hint);
    if (options.print_config) {
        if (mpi.rank() == 0)
            fmt::print("{}", job::print_job(job));
        return core::ExitCode::done;
    }
    std::optional<runtime::Deadline> const deadline = find_deadline(job, started);
    model::Model const model{runtime::model_config(job.model)};
    JobData const data = open_data(mpi, job);
    std::optional<io::RunFolderLock> lock;
    together(mpi, mpi.rank() == 0, [&] {
        io::create_folder(job.run.out);
        lock.emplace(job.run.out);
        print_last_words(job.run.out);
    });
    std::vector<bool> const shares_out = ranks_that_share(mpi, job.run.out);
    runtime::Status status{mpi, status_file(job.run.out)};
    Resume const resume = find_resume(mpi, job, model, data.fingerprint);
    Engine engine = start_engine(mpi, job.run, model.config(), job.train.microbatch_size);
    if (resume.plan) {
        job.plan.groups = resume.plan->groups;
        job.plan.chunks = resume.plan->chunks;
    }
    auto const [plan, profile] = choose_plan(mpi, engine, job, model);
    DeviceRoutes const routes = choose_device_routes(mpi, engine, job.run, plan);
    ProgramOptions const lowering = program_options(mpi, engine, job, plan, model, profile);
    program::Schedule const schedule =
        make_schedule(mpi, job.plan, plan, model, lowering, resume.schedule_csv);
    Programs programs = make_programs(plan, model, &schedule, lowering);
    program::Timeline const predicted = predict(*programs.train, model, profile).timeline;
    runtime::ComputePrediction const prediction = runtime::compute_prediction(
        *programs.train, predicted, profile.source, !job.plan.profile.empty());
    core::RankId const rank{mpi.rank()};
    runtime::PinnedNeeds const pinned =
        pinned_needs(engine, programs, model, rank, routes, !job.log.gradients.empty());
    std::int64_t const snapshot = snapshot_bytes(mpi, programs, model, job, shares_out);
    print_start(mpi, engine, programs, model,
                {sites_lines(mpi, shares_out, data.seen), routes_table(routes, engine),
                 prediction_line(*programs.train, predicted, profile.source),
                 pinned.total() - pinned.homes, snapshot});
    std::string const job_toml = job::print_job(job);
    std::string const plan_toml = job::print_plan(job.plan);
    std::string const schedule_csv = program::print_schedule(schedule);
    together(mpi, mpi.rank() == 0, [&] {
        io::write_file_atomically(job.run.out + "/job.toml", job_toml);
        io::write_file_atomically(job.run.out + "/plan.toml", plan_toml);
        io::write_file_atomically(job.run.out + "/schedule.csv", schedule_csv);
    });

    comm::Transport transport{mpi.world().get(), comm::TransportOptions::from_environment()};
    require_tags(transport, plan);
    require_node_memory(mpi, arena_bytes(engine, programs, rank) + pinned.total() + snapshot);
    std::unique_ptr<runtime::Session> session;
    together(mpi, true, [&] {
        session.reset(new runtime::Session{
            {.rank = rank,
             .model = model,
             .cache = *engine.cache,
             .transport = transport,
             .train = std::move(programs.train),
             .evaluate = std::move(programs.evaluate),
             .device_workspace_bytes = programs.device_workspace_bytes[rank.index()],
             .arena = {engine.device->threads()},
             .adamw = has_adamw(job),
             .keep_gradients = !job.log.gradients.empty(),
             .exchange = routes.exchange(),
             .status = &status}});
    });
    status.enter(runtime::Phase::load, resume.state.step);
    load_or_initialize(mpi, *session, job, resume);

    JobTokens const tokens{mpi, data, job, *session, resume.state};
    std::vector<double> const gflops = rank_gflops(plan, engine);
    StepTracer tracer{mpi, job, *session, profile};
    ScheduleExchange exchange{mpi, job, lowering, *session};
    std::unique_ptr<runtime::Watchdog> const watchdog =
        start_watchdog(job.run, status, *session, predicted.seconds());
    runtime::Trainer trainer{
        {.job = job,
         .mpi = mpi,
         .session = *session,
         .tokens = tokens.train(),
         .validation = tokens.validation(),
         .validation_batches = core::div_up(data.validation_samples, job.train.batch_size),
         .state = resume.state,
         .model = model.description(),
         .job_toml = job_toml,
         .plan_toml = plan_toml,
         .schedule_csv = has_to_be_kept(job.plan) ? schedule_csv : "",
         .creator = fmt::format("evener {} ({})", core::version, core::commit()),
         .matrix_gflops = working_gflops(plan, gflops),
         .may_write = shares_out,
         .after_pass = [&](std::int64_t step) { tracer.after_pass(step); },
         .exchange_schedule = [&] { return exchange.run(); },
         .deadline = deadline,
         .status = &status,
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
