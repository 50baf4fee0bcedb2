// SPDX-License-Identifier: Apache-2.0
#include "cluster/copies.hpp"
#include "cluster/links.hpp"
#include "comm/clock_offset.hpp"
#include "core/log.hpp"
#include "io/files.hpp"
#include "planner/profile_file.hpp"
#include "runtime/parameters.hpp"
#include "runtime/plan_conversion.hpp"
#include "runtime/step_measurement.hpp"
#include "runtime/trainer.hpp"
#include "schedule/generators.hpp"

#include "app/job_tokens.hpp"
#include "app/planned_job.hpp"
#include <fmt/format.h>

namespace evener::app {

namespace {

constexpr int warm_up_steps = 2;

/// The job's own groups, each with one run of layers under 1F1B where its words allow that. What is
/// measured does not depend on the order of the work.
void take_calibration_words(job::Job& job) {
    job::Plan& words = job.plan;
    words.schedule_file.clear();
    words.split_backward = false;
    words.profile.clear();
    if (words.chunks.empty())
        words.chunks_per_group = 1;
    words.schedule =
        words.chunks.empty() ? job::Schedule::one_f_one_b : job::Schedule::breadth_first;
    job.log.gradients.clear();
}

std::vector<program::Measurement> run_steps(comm::MpiSession const& mpi, runtime::Session& session,
                                            runtime::TokenSource const& tokens, int steps) {
    runtime::StepState& state = session.state();
    comm::ClockOffset const offset = comm::measure_clock_offset(mpi.world(), mpi.node());
    std::vector<program::Measurement> result;
    for (int step = 0; step < warm_up_steps + steps; ++step) {
        state.step = step;
        std::int64_t const count = runtime::count_tokens(mpi.world(), session, tokens, step);
        state.loss_scale = 1.0f / static_cast<float>(std::max<std::int64_t>(1, count));
        session.run_train(tokens);
        program::Measurement measurement =
            runtime::gather_measurement(mpi.world(), session, offset.seconds);
        core::log::root(core::log::Level::info, "step {}: {:.4g} ms{}", step + 1,
                        1e3 * measurement.timeline.seconds(),
                        step < warm_up_steps ? ", to warm up" : "");
        if (step >= warm_up_steps)
            result.push_back(std::move(measurement));
    }
    return result;
}

double gigabytes_per_second(program::CopyRate const& rate) {
    return rate.seconds_per_byte > 0 ? 1e-9 / rate.seconds_per_byte : 0;
}

/// Microseconds per sequence of each kind of layer, one line per rank and kind, and GPUs' copies.
std::string table(planner::Profile const& profile) {
    std::string text = fmt::format("{:>5} {:<14} {:>12} {:>12} {:>12} {:>12}\n", "rank", "layer",
                                   "F", "B", "W", "BW");
    for (std::size_t r = 0; r < profile.ranks.size(); ++r)
        for (auto const& [kind, seconds] : profile.ranks[r].layers)
            text += fmt::format("{:>5} {:<14} {:>12.1f} {:>12.1f} {:>12.1f} {:>12.1f}\n", r, kind,
                                1e6 * seconds.forward, 1e6 * seconds.backward_input,
                                1e6 * seconds.backward_weight, 1e6 * seconds.backward);
    for (std::size_t r = 0; r < profile.ranks.size(); ++r)
        if (auto const& copies = profile.ranks[r].copies)
            text +=
                fmt::format("rank {} copies {:.2f} GB/s to its GPU, {:.2f} GB/s back\n", r,
                            gigabytes_per_second(copies->in), gigabytes_per_second(copies->out));
    return text;
}

core::ExitCode run(comm::MpiSession const& mpi, ProfileOptions const& options) {
    core::log::configure(mpi.rank(), core::log::Level::info);
    job::Job job = read_job(mpi, options.job);
    take_calibration_words(job);
    std::string const file =
        options.output.empty() ? job.run.out + "/profile.json" : options.output;
    together(mpi, mpi.rank() == 0, [&] { io::refuse_to_replace(file); });
    model::Model const model{runtime::model_config(job.model)};
    JobData const data = open_data(mpi, job);
    PlannedJob const planned = plan_job(mpi, job, model, "");
    Programs programs = make_programs(planned.plan, model, &planned.schedule, planned.lowering);
    std::int64_t const host_bytes =
        host_memory(planned, programs, core::RankId{mpi.rank()}).total();
    JobSession const ready{mpi, planned, std::move(programs), host_bytes, nullptr};
    runtime::Session& session = *ready.session;
    runtime::initialize_parameters(session, job.run.seed);
    JobTokens const tokens{mpi, data, job, session, {}};
    std::vector<planner::CalibrationRun> runs;
    runs.push_back({session.sets(), run_steps(mpi, session, tokens.train(), options.steps)});
    program::Plan split = planned.plan;
    split.split_backward = true;
    together(mpi, true, [&] {
        session.exchange_train(make_train_programs(
            split, model, schedule::generate(split, program::ProgramKind::train),
            planned.lowering));
    });
    core::log::root(core::log::Level::info, "the same with backwards in halves");
    runs.push_back({session.sets(), run_steps(mpi, session, tokens.train(), options.steps)});
    planner::Profile profile =
        planner::measured_profile(runs, model, comm::lowest_of_nodes(mpi.world(), mpi.node()),
                                  cluster::measure_network(mpi.world()));
    auto const copies = cluster::measure_copies(mpi.world(), *planned.engine.device);
    for (std::size_t r = 0; r < copies.size(); ++r)
        profile.ranks[r].copies = copies[r];
    together(mpi, mpi.rank() == 0, [&] {
        if (options.output.empty())
            io::create_folder(job.run.out);
        io::write_file_atomically(file, planner::print_profile(profile));
        fmt::print("microseconds per sequence\n{}wrote {}; use it with --set plan.profile={}\n",
                   table(profile), file, file);
    });
    return core::ExitCode::done;
}

} // namespace

core::ExitCode profile(ProfileOptions const& options) {
    return run_mpi_job([&](comm::MpiSession const& mpi) { return run(mpi, options); });
}

} // namespace evener::app
