// SPDX-License-Identifier: Apache-2.0
#include "app/job_setup.hpp"

#include "core/log.hpp"
#include "core/size_text.hpp"
#include "device/arena.hpp"
#include "io/files.hpp"
#include "job/parse.hpp"
#include "runtime/plan_conversion.hpp"

#include "app/profile_choice.hpp"
#include "app/schedule_choice.hpp"
#include "app/visibility.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>

namespace evener::app {

namespace {

/// A larger set is not read whole before step 1; its tokens are checked as they are loaded.
constexpr std::int64_t most_tokens_to_scan = std::int64_t{1} << 30;

} // namespace

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
    return job::parse_job_text(text, options.job, settings,
                               {mpi.size(), [](std::string const& line) {
                                    core::log::root(core::log::Level::warn, "{}", line);
                                }});
}

namespace {

/// Opens the job's files as this rank sees them.
void open_files(job::Job const& job, JobData& data) {
    std::optional<std::int32_t> ignore;
    if (job.data.ignore_token >= 0)
        ignore = static_cast<std::int32_t>(job.data.ignore_token);
    io::TokenFormat const format = *io::token_format_named(job::name_of(job.data.format));
    data.train.emplace(job.data.train, format, job.model.sequence_length, ignore);
    if (!job.data.validation.empty())
        data.validation.emplace(job.data.validation, format, job.model.sequence_length, ignore);
}

/// Training and validation data as their node sees them; "" where it does not.
std::string node_fingerprint(comm::MpiSession const& mpi, JobData const& data) {
    std::string text;
    if (mpi.node().rank() == 0 && data.train)
        text = data.train->fingerprint() +
               (data.validation ? " " + data.validation->fingerprint() : "");
    return mpi.node().broadcast(text);
}

} // namespace

JobData open_data(comm::MpiSession const& mpi, job::Job const& job) {
    JobData data;
    std::string reason;
    try {
        open_files(job, data);
    } catch (core::IoError const& error) { // what it means depends on the other ranks
        reason = error.what();
        data.train.reset();
    }
    std::vector<bool> const opened = by_rank(mpi, reason.empty());
    auto const other = std::find(opened.begin(), opened.end(), true);
    together(mpi, mpi.rank() == 0 && !reason.empty(), [&] {
        if (other != opened.end())
            reason += fmt::format(" (rank {} on host '{}' can open the data, and rank 0 has to see "
                                  "it); start the job so that rank 0 runs there",
                                  other - opened.begin(),
                                  mpi.hosts()[static_cast<std::size_t>(other - opened.begin())]);
        throw core::AgreedError{core::ExitCode::file, reason};
    });
    std::string const own = node_fingerprint(mpi, data);
    std::string const all = mpi.world().broadcast(own);
    data.seen = by_rank(mpi, reason.empty() && own == all);
    if (!data.seen[static_cast<std::size_t>(mpi.rank())]) {
        data.train.reset();
        data.validation.reset();
    }
    together(mpi, mpi.rank() == 0, [&] {
        for (auto const* const set : {&data.train, &data.validation})
            if (*set && (*set)->tokens() <= most_tokens_to_scan)
                (*set)->check_tokens(job.model.vocabulary);
    });
    data.fingerprint = all.substr(0, all.find(' '));
    std::int64_t const samples = data.validation ? data.validation->samples() : 0;
    data.validation_samples = mpi.world().all_max(std::vector<std::int64_t>{samples}).front();
    return data;
}

PlanChoice choose_plan(comm::MpiSession const& mpi, Engine const& engine, job::Job& job,
                       model::Model const& model) {
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
        runtime::take_groups(automatic, job.plan);
        core::log::root(core::log::Level::info,
                        "no [[plan.groups]]: ranks became {} groups by measured speed",
                        automatic.groups.size());
    }
    PlanChoice choice;
    choice.plan = runtime::plan_of(job, automatic_types(engine.ranks), own_memories(engine.ranks));
    check_plan(choice.plan, model, engine.ranks);
    if (offloads_in_vain(choice.plan))
        core::log::root(core::log::Level::info,
                        "offload has no effect: no rank that it is asked for has a GPU");
    choice.profile = choose_profile(mpi, engine, job, choice.plan, model);
    choice.plan = with_best_deals(std::move(choice.plan), model, choice.profile);
    job.plan = runtime::plan_words(choice.plan, job.plan);
    return choice;
}

std::vector<std::int64_t> memory_limit_bytes(job::Job const& job,
                                             std::vector<RankFacts> const& ranks) {
    constexpr std::int64_t none = std::numeric_limits<std::int64_t>::max();
    auto const asked = static_cast<std::int64_t>(job.plan.memory_gib * 1024 * 1024 * 1024);
    std::vector<std::int64_t> limits;
    bool limited = false;
    for (RankFacts const& facts : ranks) {
        limits.push_back(
            std::min(asked > 0 ? asked : none, facts.own_memory ? facts.device_bytes : none));
        limited = limited || limits.back() < none;
    }
    return limited ? limits : std::vector<std::int64_t>{};
}

ProgramOptions program_options(comm::MpiSession const& mpi, Engine& engine, job::Job const& job,
                               program::Plan const& plan, model::Model const& model,
                               planner::Profile const& profile) {
    ProgramOptions options;
    options.device_workspace_bytes = prepare_devices(mpi, engine, plan, model, has_adamw(job));
    options.moments = has_adamw(job) ? 2 : 0;
    options.costs = planner::costs_of(profile, plan, model);
    options.memory_limit_bytes = memory_limit_bytes(job, engine.ranks);
    for (std::size_t r = 0; r < engine.ranks.size(); ++r)
        options.device_names.push_back(engine.ranks[r].own_memory ? engine.devices[r] : "");
    options.proof = mpi.rank() == 0 ? Proof::verify : Proof::trust;
    return options;
}

void require_node_memory(comm::MpiSession const& mpi, std::int64_t bytes) {
    std::int64_t const needed = mpi.node().all_sum(std::vector<std::int64_t>{bytes}).front();
    std::int64_t const available = device::available_memory_bytes();
    together(mpi, true, [&] {
        if (available >= 0 && needed > available)
            throw core::DeviceError{
                0, false,
                fmt::format("the ranks of host '{}' need {} together (it has {} "
                            "available); use more nodes, a smaller microbatch or a smaller model",
                            mpi.hosts()[static_cast<std::size_t>(mpi.rank())],
                            core::size_text(needed), core::size_text(available))};
    });
    mpi.world().barrier();
}

} // namespace evener::app
