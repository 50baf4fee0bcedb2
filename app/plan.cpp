// SPDX-License-Identifier: Apache-2.0
#include "cluster/copies.hpp"
#include "core/log.hpp"
#include "job/parse.hpp"
#include "job/print.hpp"
#include "runtime/plan_conversion.hpp"

#include "app/commands.hpp"
#include "app/job_setup.hpp"
#include "app/pictures.hpp"
#include "app/profile_choice.hpp"
#include "app/schedule_choice.hpp"
#include "app/start_table.hpp"
#include <fmt/format.h>

#include <algorithm>

namespace evener::app {

namespace {

std::int64_t rank_count(job::Job const& job, JobOptions const& options) {
    if (options.ranks > 0)
        return options.ranks;
    std::int64_t ranks = 0;
    for (job::Group const& group : job.plan.groups)
        ranks += std::ssize(group.ranks);
    return std::max<std::int64_t>(1, ranks);
}

/// In GF/s, of this machine, in the type that each rank computes in.
std::vector<RankFacts> measured_facts(device::Device const& device, job::Job const& job,
                                      model::Model const& model, program::Plan const& plan) {
    RankFacts facts;
    for (program::Group const& group : plan.groups) {
        double& rate = facts.gflops[group.compute == core::DType::float32 ? 0 : 1];
        if (rate == 0)
            rate = matrix_gflops(device, model.config(), job.train.microbatch_size, group.compute);
    }
    return std::vector<RankFacts>(static_cast<std::size_t>(plan.rank_count()), facts);
}

/// A profile says which ranks have a GPU. Only of those that this process has, too, it is known how much
/// memory they have left.
void take_devices(planner::Profile const& profile, program::Plan& plan,
                  std::vector<RankFacts>& ranks) {
    for (program::Group& group : plan.groups)
        for (std::size_t member = 0; member < group.ranks.size(); ++member) {
            std::size_t const rank = group.ranks[member].index();
            bool const gpu = profile.ranks[rank].copies.has_value();
            group.own_memory[member] = gpu;
            ranks[rank].own_memory = ranks[rank].own_memory && gpu;
        }
}

/// What the plan takes for granted about the ranks' devices, where that matters.
std::string assumed_devices(program::Plan const& plan, bool profiled) {
    std::string_view const source = profiled ? "the profile" : "this process";
    if (offloads_in_vain(plan))
        return fmt::format("ranks without GPUs assumed, as in {}: offload has no effect\n", source);
    for (program::Group const& group : plan.groups)
        for (bool const gpu : group.own_memory)
            if (gpu)
                return fmt::format("GPUs in the ranks assumed as in {}\n", source);
    return "";
}

void draw_prediction(job::Job const& job, model::Model const& model, program::ProgramSet const& set,
                     planner::Profile const& profile, PictureFiles const& files) {
    schedule::Simulation const run = predict(set, model, profile);
    for (std::string const& path : write_pictures({set,
                                                   picture_title(job, set.plan),
                                                   {{"predicted", run.timeline, run.critical_path}},
                                                   "by " + profile.source},
                                                  files))
        fmt::print("wrote {}\n", path);
}

} // namespace

core::ExitCode plan(JobOptions const& options) {
    check_picture_files(options.pictures);
    job::Job job = job::parse_job(options.job, options.settings,
                                  {options.ranks, [](std::string const& line) {
                                       core::log::root(core::log::Level::warn, "{}", line);
                                   }});
    if (options.print_config) {
        fmt::print("{}", job::print_job(job));
        return core::ExitCode::done;
    }
    model::Model const model{runtime::model_config(job.model)};
    std::unique_ptr<device::Device> const device = open_own_device(job.run);
    // Other ranks are taken to be like this machine.
    RankFacts facts;
    facts.gflops[0] = 1;
    facts.own_memory = device->has_own_memory();
    facts.device_bytes = facts.own_memory ? device->free_bytes() : 0;
    facts.gflops[1] = device->supports(core::DType::bfloat16) ? 1 : 0; // equal: auto is float32
    std::vector<RankFacts> ranks(static_cast<std::size_t>(rank_count(job, options)), facts);
    if (job.precision.compute == job::Compute::automatic)
        fmt::print("'precision.compute' is \"auto\": float32 assumed; train measures, and may take "
                   "bfloat16\n");
    if (job.plan.groups.empty()) {
        fmt::print("no [[plan.groups]]: {} ranks of equal speed assumed\n", ranks.size());
        planner::DefaultPlanInput input{job.train.batch_size, job.train.microbatch_size, {}, {}};
        input.rank_speeds.assign(ranks.size(), 1.0);
        input.compute_types.assign(ranks.size(), job.precision.compute == job::Compute::bfloat16
                                                     ? core::DType::bfloat16
                                                     : core::DType::float32);
        runtime::take_groups(planner::default_plan(model, input), job.plan);
    }
    program::Plan plan = runtime::plan_of(job, automatic_types(ranks), own_memories(ranks));
    check_plan(plan, model, ranks);
    planner::Profile profile =
        choose_profile(job, plan, model, measured_facts(*device, job, model, plan));
    if (job.plan.profile.empty()) {
        profile.source += " of this machine, for all ranks; links and updates without cost";
        if (device->has_own_memory())
            for (planner::RankProfile& rank : profile.ranks)
                rank.copies = cluster::measure_copies(*device);
    } else {
        take_devices(profile, plan, ranks);
    }
    fmt::print("{}", assumed_devices(plan, !job.plan.profile.empty()));
    plan = with_best_deals(std::move(plan), model, profile);
    job::Plan const words = runtime::plan_words(plan, job.plan);
    for (std::size_t g = 0; g < words.groups.size(); ++g)
        job.plan.groups[g].deal = words.groups[g].deal; // types are left to measurement
    ProgramOptions lowering;
    lowering.moments = has_adamw(job) ? 2 : 0;
    for (std::size_t r = 0; r < ranks.size(); ++r) {
        runtime::OperationCache cache{*device};
        lowering.device_workspace_bytes.push_back(runtime::prepare_plan(
            cache, plan, model, core::RankId{static_cast<std::int64_t>(r)}, has_adamw(job)));
    }
    lowering.costs = planner::costs_of(profile, plan, model);
    lowering.memory_limit_bytes = memory_limit_bytes(job, ranks);
    program::Schedule const schedule =
        make_schedule(plan, model, lowering, schedule_origin(job.plan, ""));
    Programs const programs = make_programs(plan, model, &schedule, lowering);
    fmt::print("{}\n{}\n{} parameters\n{}\n\n{}\n", plan_table(plan, model),
               memory_table(*programs.train, {}), model.parameter_elements(),
               prediction_line(*programs.train, predict(*programs.train, model, profile).timeline,
                               profile.source, !job.plan.profile.empty()),
               job::print_plan(job.plan));
    draw_prediction(job, model, *programs.train, profile, options.pictures);
    for (program::Program const& program : programs.train->programs)
        fmt::print("{}\n", program::to_string(program));
    return core::ExitCode::done;
}

} // namespace evener::app
