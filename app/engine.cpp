// SPDX-License-Identifier: Apache-2.0
#include "app/engine.hpp"

#include "cluster/gpus.hpp"
#include "cluster/processors.hpp"
#include "device/matrix_rate.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "schedule/verify.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::app {

namespace {

bool wants_gpu(job::Devices devices) {
    return devices == job::Devices::automatic || devices == job::Devices::gpu;
}

/// The GPU with this ordinal, else what the job says.
std::unique_ptr<device::Device> open(job::Run const& run, cluster::Processors const& processors,
                                     std::optional<int> gpu) {
    kernels::DeviceOptions options;
    if (gpu) {
        options.ordinal = *gpu;
        return device::open_device(device::Backend::cuda, options);
    }
    options.threads = static_cast<int>(run.threads > 0 ? run.threads : processors.threads());
    return device::open_device(run.devices == job::Devices::reference ? device::Backend::reference
                                                                      : device::Backend::host,
                               options);
}

/// Collective over the node: finds the GPUs and takes one where the job wants it and one is left.
std::optional<device::Gpu> choose_gpu(comm::MpiSession const& mpi, job::Run const& run) {
    std::vector<device::Gpu> gpus;
    together(mpi, wants_gpu(run.devices), [&] { gpus = device::find_gpus(); });
    std::optional<int> const ordinal = cluster::own_gpu(mpi.node(), cluster::gpu_candidates(gpus));
    together(mpi, run.devices == job::Devices::gpu && !ordinal, [&] {
        throw core::ConfigError{fmt::format(
            "'run.devices' is \"gpu\" and no GPU is left for rank {} on host '{}' ({} ranks run "
            "there, this one sees {} GPUs); start as many ranks per node as it has GPUs, or set it "
            "to \"auto\"",
            mpi.rank(), mpi.hosts()[static_cast<std::size_t>(mpi.rank())], mpi.node().size(),
            gpus.size())};
    });
    if (!ordinal)
        return std::nullopt;
    return gpus[static_cast<std::size_t>(*ordinal)];
}

/// A GPU's name, else the first part of the plug-in's description.
std::string short_name(device::Device const& device, std::optional<device::Gpu> const& gpu) {
    if (gpu)
        return gpu->facts.name;
    std::string const description{device.description()};
    return description.substr(0, description.find(','));
}

} // namespace

double matrix_gflops(device::Device const& device, model::ModelConfig const& model,
                     std::int64_t microbatch_size, core::DType type) {
    if (!device.supports(type))
        return 0;
    bool const slow = device.kind() == "reference";
    auto const most = [&](std::int64_t size, std::int64_t limit) {
        return std::clamp<std::int64_t>(size, 1, slow ? 32 : limit);
    };
    return device::matrix_rate_gflops(device,
                                      {.m = most(microbatch_size * model.sequence_length, 1024),
                                       .n = most(model.ffn_size, 2048),
                                       .k = most(model.hidden_size, 2048),
                                       .type = type});
}

Engine start_engine(comm::MpiSession const& mpi, job::Run const& run,
                    model::ModelConfig const& model, std::int64_t microbatch_size) {
    Engine engine;
    cluster::Processors const processors = cluster::processors(mpi.node());
    engine.gpu = choose_gpu(mpi, run);
    engine.gpu_ranks = mpi.world().all_sum(std::vector<std::int64_t>{engine.gpu ? 1 : 0})[0];
    std::optional<int> const ordinal =
        engine.gpu ? std::optional{engine.gpu->ordinal} : std::nullopt;
    together(mpi, true, [&] { engine.device = open(run, processors, ordinal); });
    engine.cache = std::make_unique<runtime::OperationCache>(*engine.device);
    engine.devices = mpi.world().all_gather(short_name(*engine.device, engine.gpu));
    mpi.world().barrier();
    RankFacts mine;
    mine.threads = engine.device->threads();
    mine.cores = processors.cores;
    mine.own_memory = engine.device->has_own_memory();
    together(mpi, true, [&] {
        mine.gflops[0] =
            matrix_gflops(*engine.device, model, microbatch_size, core::DType::float32);
        mine.gflops[1] =
            matrix_gflops(*engine.device, model, microbatch_size, core::DType::bfloat16);
    });
    if (mine.own_memory)
        mine.device_bytes = engine.device->free_bytes();
    for (auto const& facts :
         comm::all_gather_values(mpi.world(), std::span<RankFacts const>{&mine, 1}))
        engine.ranks.push_back(facts.front());
    return engine;
}

std::unique_ptr<device::Device> open_own_device(job::Run const& run) {
    std::vector<device::Gpu> gpus;
    if (wants_gpu(run.devices))
        gpus = device::find_gpus();
    std::optional<int> ordinal;
    if (!gpus.empty())
        ordinal = gpus.front().ordinal;
    else if (run.devices == job::Devices::gpu)
        throw core::ConfigError{"'run.devices' is \"gpu\" and this process sees none; set it to "
                                "\"auto\" to plan for this machine's processor"};
    return open(run, cluster::own_processors(), ordinal);
}

planner::Profile estimated_profile(program::Plan const& plan, model::Model const& model,
                                   std::vector<RankFacts> const& ranks) {
    std::vector<double> gflops(ranks.size());
    for (program::Group const& group : plan.groups)
        for (core::RankId const rank : group.ranks)
            gflops[rank.index()] = ranks[rank.index()].rate(group.compute);
    return planner::estimated_profile(model, gflops);
}

std::vector<core::DType> automatic_types(std::vector<RankFacts> const& ranks) {
    std::vector<core::DType> types;
    for (RankFacts const& facts : ranks)
        types.push_back(facts.automatic());
    return types;
}

std::vector<bool> own_memories(std::vector<RankFacts> const& ranks) {
    std::vector<bool> own;
    for (RankFacts const& facts : ranks)
        own.push_back(facts.own_memory);
    return own;
}

bool offloads_in_vain(program::Plan const& plan) {
    bool asked = false;
    for (program::Group const& group : plan.groups) {
        asked = asked || group.offload.any();
        for (core::RankId const rank : group.ranks)
            if (program::offload_of(plan, rank).any())
                return false;
    }
    return asked;
}

void check_plan(program::Plan const& plan, model::Model const& model,
                std::vector<RankFacts> const& ranks) {
    std::vector<std::string> problems;
    if (plan.rank_count() != std::ssize(ranks))
        problems.push_back(
            fmt::format("the plan is for {} ranks (the job has {}); start it with {} ranks or "
                        "change [[plan.groups]]",
                        plan.rank_count(), ranks.size(), plan.rank_count()));
    else
        problems = program::plan_problems(plan, model);
    for (program::Group const& group : plan.groups)
        for (core::RankId const rank : group.ranks)
            if (rank.index() < ranks.size() && ranks[rank.index()].rate(group.compute) == 0)
                problems.push_back(
                    fmt::format("rank {} cannot compute in {} (its processor lacks the "
                                "instructions); set 'precision.compute' to \"auto\" or \"float32\"",
                                rank.value, core::name_of(group.compute)));
    if (problems.empty())
        return;
    std::vector<core::Finding> findings;
    for (std::string const& problem : problems)
        findings.push_back({{}, problem});
    throw core::ConfigError{findings};
}

namespace {

void require_proven(std::vector<schedule::Problem> const& problems) {
    if (problems.empty())
        return;
    std::string text = "the programs of this plan are not proven:";
    for (std::size_t i = 0; i < std::min<std::size_t>(5, problems.size()); ++i)
        text += fmt::format("\n  rank {} instruction {}: {}", problems[i].rank.value,
                            problems[i].instruction.value, problems[i].message);
    throw core::ContractViolation{text};
}

program::ProgramSet lower_verified(program::Plan const& plan, model::Model const& model,
                                   program::Schedule const& schedule, program::ProgramKind kind,
                                   ProgramOptions const& options) {
    schedule::LoweringOptions lowering{.kind = kind,
                                       .device_workspace_bytes = options.device_workspace_bytes,
                                       .moments = options.moments};
    if (options.costs)
        lowering.costs = &*options.costs;
    lowering.memory_limit_bytes = options.memory_limit_bytes;
    lowering.device_names = options.device_names;
    program::ProgramSet set = schedule::lower(plan, model, schedule, lowering);
    if (options.proof == Proof::verify)
        require_proven(
            schedule::verify(set, model, options.device_workspace_bytes, options.moments));
    return set;
}

} // namespace

std::vector<std::int64_t> prepare_devices(comm::MpiSession const& mpi, Engine& engine,
                                          program::Plan const& plan, model::Model const& model,
                                          bool adamw) {
    std::int64_t mine = 0;
    together(mpi, true, [&] {
        mine = runtime::prepare_plan(*engine.cache, plan, model, core::RankId{mpi.rank()}, adamw);
    });
    std::vector<std::int64_t> workspace;
    for (auto const& bytes :
         comm::all_gather_values(mpi.world(), std::span<std::int64_t const>{&mine, 1}))
        workspace.push_back(bytes.front());
    return workspace;
}

program::ProgramSet make_train_programs(program::Plan const& plan, model::Model const& model,
                                        program::Schedule const& schedule,
                                        ProgramOptions const& options) {
    return lower_verified(plan, model, schedule, program::ProgramKind::train, options);
}

Programs make_programs(program::Plan const& plan, model::Model const& model,
                       program::Schedule const* train, ProgramOptions const& options) {
    Programs programs;
    programs.device_workspace_bytes = options.device_workspace_bytes;
    if (train != nullptr) // first: where memory does not suffice, its message says more
        programs.train = make_train_programs(plan, model, *train, options);
    programs.evaluate =
        lower_verified(plan, model, schedule::generate(plan, program::ProgramKind::evaluate),
                       program::ProgramKind::evaluate, options);
    if (programs.train && options.proof == Proof::verify)
        require_proven(schedule::verify_persistent(*programs.train, programs.evaluate));
    return programs;
}

} // namespace evener::app
