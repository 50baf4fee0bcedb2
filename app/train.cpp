// SPDX-License-Identifier: Apache-2.0
#include "cluster/processors.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"
#include "io/files.hpp"
#include "job/parse.hpp"
#include "job/print.hpp"
#include "program/schedule_text.hpp"
#include "runtime/plan_conversion.hpp"
#include "runtime/trainer.hpp"

#include "app/commands.hpp"
#include "app/engine.hpp"
#include "app/resume.hpp"
#include "app/schedule_choice.hpp"
#include "app/start_table.hpp"
#include "app/step_tracer.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace evener::app {

namespace {

core::log::Level log_level(job::LogLevel level) {
    return static_cast<core::log::Level>(level);
}

/// Rank 0 reads the file, so that nodes that do not see it still agree on every word.
job::Job read_job(comm::MpiSession const& mpi, JobOptions const& options) {
    std::string text;
    together(mpi, mpi.rank() == 0, [&] {
        try {
            text = io::read_file(options.job);
        } catch (core::IoError const& error) { // a wrong name is bad input, as for `check`
            throw core::ConfigError{error.what()};
        }
    });
    text = mpi.world().broadcast(text);
    std::vector<std::string> const all =
        mpi.world().all_gather(fmt::format("{}", fmt::join(options.settings, "\n")));
    for (std::size_t rank = 1; rank < all.size(); ++rank)
        if (all[rank] != all[0])
            throw core::ConfigError{
                fmt::format("rank {} was started with other '--set' values than rank 0 (all ranks "
                            "run one job); give all the same",
                            rank)};
    std::vector<std::string> settings = options.settings;
    if (!options.resume.empty())
        settings.push_back("checkpoint.resume=" + options.resume);
    return job::parse_job_text(text, options.job, settings, {mpi.size()});
}

struct Data {
    std::optional<io::TokenDataset> train;
    std::optional<io::TokenDataset> validation;
    std::string fingerprint;
};

/// A larger set is not read whole before step 1; its tokens are checked as they are loaded.
constexpr std::int64_t most_tokens_to_scan = std::int64_t{1} << 30;

Data open_data(comm::MpiSession const& mpi, job::Job const& job) {
    Data data;
    std::optional<std::int32_t> ignore;
    if (job.data.ignore_token >= 0)
        ignore = static_cast<std::int32_t>(job.data.ignore_token);
    together(mpi, true, [&] {
        io::TokenFormat const format = *io::token_format_named(job::name_of(job.data.format));
        data.train.emplace(job.data.train, format, job.model.sequence_length, ignore);
        if (!job.data.validation.empty())
            data.validation.emplace(job.data.validation, format, job.model.sequence_length, ignore);
    });
    together(mpi, mpi.rank() == 0, [&] {
        data.fingerprint = data.train->fingerprint();
        for (auto const* const set : {&data.train, &data.validation})
            if (*set && (*set)->tokens() <= most_tokens_to_scan)
                (*set)->check_tokens(job.model.vocabulary);
    });
    data.fingerprint = mpi.world().broadcast(data.fingerprint);
    return data;
}

program::Plan choose_plan(Engine const& engine, job::Job& job, model::Model const& model) {
    if (job.plan.groups.empty()) {
        planner::DefaultPlanInput input{job.train.batch_size, job.train.microbatch_size, {}, {}};
        for (RankFacts const& facts : engine.ranks) {
            bool const narrow = job.precision.compute == job::Compute::bfloat16 ||
                                (job.precision.compute == job::Compute::automatic &&
                                 facts.automatic() == core::DType::bfloat16);
            input.compute_types.push_back(narrow ? core::DType::bfloat16 : core::DType::float32);
            if (facts.rate(input.compute_types.back()) == 0)
                throw core::ConfigError{
                    "'precision.compute' is \"bfloat16\", which a rank's processor cannot compute "
                    "in; set it to \"auto\" or \"float32\""};
            input.rank_speeds.push_back(facts.rate(input.compute_types.back()));
        }
        program::Plan const automatic = planner::default_plan(model, input);
        job.plan.groups = runtime::plan_words(automatic, job.plan).groups;
        core::log::root(core::log::Level::info,
                        "no [[plan.groups]]: ranks became {} groups by measured speed",
                        automatic.groups.size());
    }
    program::Plan plan = runtime::plan_of(job, automatic_types(engine.ranks));
    check_plan(plan, model, engine.ranks);
    // All ranks come to the same plan: they know the same rates.
    plan = with_best_deals(std::move(plan), model, estimated_profile(plan, model, engine.ranks));
    job.plan = runtime::plan_words(plan, job.plan); // with the compute types and deals in force
    return plan;
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

std::int64_t arena_bytes(Programs const& programs, std::size_t rank) {
    return std::max(programs.train->programs[rank].arena_bytes,
                    programs.evaluate.programs[rank].arena_bytes);
}

/// This rank's part of the node's snapshot for checkpoints; a rank alone on its node needs none.
std::int64_t snapshot_bytes(comm::MpiSession const& mpi, Programs const& programs,
                            std::int64_t moments) {
    std::int64_t bytes = 0;
    if (mpi.node().size() > 1)
        for (program::Bucket const& bucket : programs.train->buckets)
            bytes += 4 * (1 + moments) * bucket.shard_of(core::RankId{mpi.rank()}).size();
    return bytes;
}

/// All ranks of a node ask before one of them allocates. Collective.
void require_node_memory(comm::MpiSession const& mpi, Programs const& programs,
                         std::int64_t moments) {
    std::int64_t const mine = arena_bytes(programs, static_cast<std::size_t>(mpi.rank())) +
                              snapshot_bytes(mpi, programs, moments);
    std::int64_t const needed = mpi.node().all_sum(std::vector<std::int64_t>{mine}).front();
    std::int64_t const available = device::available_memory_bytes();
    together(mpi, true, [&] {
        if (available >= 0 && needed > available)
            throw core::DeviceError{
                0, false,
                fmt::format("the ranks of host '{}' need {:.0f} MB together (it has {:.0f} MB "
                            "available); use more nodes, a smaller microbatch or a smaller model",
                            mpi.hosts()[static_cast<std::size_t>(mpi.rank())],
                            static_cast<double>(needed) / 1e6,
                            static_cast<double>(available) / 1e6)};
    });
    mpi.world().barrier();
}

/// Collective.
void print_start(comm::MpiSession const& mpi, Engine const& engine, Programs const& programs,
                 model::Model const& model, std::int64_t moments) {
    OtherMemory mine;
    mine.outside = cluster::resident_bytes();
    mine.snapshot = snapshot_bytes(mpi, programs, moments);
    std::vector<OtherMemory> other;
    for (auto const& rank :
         comm::all_gather_values(mpi.world(), std::span<OtherMemory const>{&mine, 1}))
        other.push_back(rank.front());
    if (mpi.rank() != 0)
        return;
    fmt::print(stderr, "{}\n{}\n{}\n{} parameters\n\n", machine_table(mpi, engine),
               plan_table(programs.evaluate.plan, model), memory_table(*programs.train, other),
               model.parameter_elements());
}

void load_or_initialize(comm::MpiSession const& mpi, runtime::Session& session, job::Job const& job,
                        Resume const& resume) {
    std::string const source = resume.folder.empty() ? resume.init_from : resume.folder;
    if (source.empty()) {
        runtime::initialize_parameters(session, job.run.seed);
        return;
    }
    together(mpi, true, [&] {
        checkpoints::CheckpointReader reader{source, checkpoints::Check::whole_reads};
        runtime::load_parameters(session, reader,
                                 resume.folder.empty() ? runtime::Load::parameters
                                                       : runtime::Load::parameters_and_moments);
    });
}

core::ExitCode run(comm::MpiSession const& mpi, JobOptions const& options) {
    core::log::configure(mpi.rank(), core::log::Level::info);
    job::Job job = read_job(mpi, options);
    core::log::configure(mpi.rank(), log_level(job.log.level));
    if (options.print_config) {
        if (mpi.rank() == 0)
            fmt::print("{}", job::print_job(job));
        return core::ExitCode::done;
    }
    model::Model const model{runtime::model_config(job.model)};
    Data const data = open_data(mpi, job);
    std::optional<io::RunFolderLock> lock;
    together(mpi, mpi.rank() == 0, [&] {
        io::create_folder(job.run.out);
        lock.emplace(job.run.out);
    });
    Resume const resume = find_resume(mpi, job, model, data.fingerprint);
    Engine engine = start_engine(mpi, job.run, model.config(), job.train.microbatch_size);
    if (resume.plan) {
        job.plan.groups = resume.plan->groups;
        job.plan.chunks = resume.plan->chunks;
    }
    program::Plan const plan = choose_plan(engine, job, model);
    bool const adamw = job.optimizer.kind == job::OptimizerKind::adamw;
    program::Schedule const schedule =
        make_schedule(mpi, job.plan, plan, model, estimated_profile(plan, model, engine.ranks),
                      resume.schedule_csv);
    Programs programs = make_programs(mpi, engine, plan, model, &schedule, adamw);
    print_start(mpi, engine, programs, model, adamw ? 2 : 0);
    std::string const job_toml = job::print_job(job);
    std::string const plan_toml = job::print_plan(job.plan);
    std::string const schedule_csv = program::print_schedule(schedule);
    together(mpi, mpi.rank() == 0, [&] {
        io::write_file_atomically(job.run.out + "/job.toml", job_toml);
        io::write_file_atomically(job.run.out + "/plan.toml", plan_toml);
        io::write_file_atomically(job.run.out + "/schedule.csv", schedule_csv);
    });

    comm::Transport transport{mpi.world().get(), comm::TransportOptions::from_environment()};
    if (plan.microbatch_count() * std::ssize(plan.chunks) > transport.max_tag())
        throw core::ConfigError{fmt::format(
            "{} microbatches over {} groups need more message tags than MPI has ({}); raise "
            "'train.microbatch_size'",
            plan.microbatch_count(), plan.chunks.size(), transport.max_tag())};
    require_node_memory(mpi, programs, adamw ? 2 : 0);
    std::unique_ptr<runtime::Session> session;
    together(mpi, true, [&] {
        session.reset(new runtime::Session{
            {.rank = core::RankId{mpi.rank()},
             .model = model,
             .cache = *engine.cache,
             .transport = transport,
             .train = std::move(programs.train),
             .evaluate = std::move(programs.evaluate),
             .device_workspace_bytes =
                 programs.device_workspace_bytes[static_cast<std::size_t>(mpi.rank())],
             .arena = {engine.device->threads()},
             .adamw = adamw}});
    });
    load_or_initialize(mpi, *session, job, resume);

    io::SampleOrder const order{data.train->samples(), job.run.seed, job.data.shuffle};
    runtime::TrainingTokens const tokens{*data.train, order, job.train.batch_size,
                                         resume.state.step, resume.state.samples_consumed};
    std::optional<runtime::ValidationTokens> validation;
    if (data.validation)
        validation.emplace(*data.validation, job.train.batch_size);
    std::vector<double> const gflops = rank_gflops(plan, engine);
    StepTracer tracer{mpi, job, *session, gflops};
    runtime::Trainer trainer{
        {.job = job,
         .mpi = mpi,
         .session = *session,
         .tokens = tokens,
         .validation = validation ? &*validation : nullptr,
         .state = resume.state,
         .model = model.description(),
         .job_toml = job_toml,
         .plan_toml = plan_toml,
         .schedule_csv = has_to_be_kept(job.plan) ? schedule_csv : "",
         .creator = fmt::format("evener {} ({})", core::version, core::commit()),
         .matrix_gflops = working_gflops(plan, gflops),
         .after_pass = [&](std::int64_t step) { tracer.after_pass(step); }}};
    if (resume.state.step >= job.train.steps)
        core::log::root(core::log::Level::info,
                        "step {} is done already; raise 'train.steps' ({}) to go on",
                        resume.state.step, job.train.steps);
    trainer.run();
    return core::ExitCode::done;
}

} // namespace

core::ExitCode train(JobOptions const& options) {
    return run_mpi_job([&](comm::MpiSession const& mpi) { return run(mpi, options); });
}

} // namespace evener::app
