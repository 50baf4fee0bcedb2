// SPDX-License-Identifier: Apache-2.0
#include "app/profile_choice.hpp"

#include "cluster/links.hpp"
#include "io/files.hpp"
#include "planner/profile_file.hpp"

#include <fmt/format.h>

namespace evener::app {

namespace {

planner::Profile read(std::string const& file, model::Model const& model, std::size_t ranks) {
    std::string text;
    try {
        text = io::read_file(file);
    } catch (core::IoError const& error) {
        throw core::ConfigError{
            fmt::format("'plan.profile' cannot be read ({}); write it with 'evener profile', or "
                        "leave it out",
                        error.what())};
    }
    planner::Profile profile = planner::parse_profile(text, file);
    std::string const problem =
        planner::profile_problem(profile, model, static_cast<std::int64_t>(ranks));
    if (!problem.empty())
        throw core::ConfigError{fmt::format("'plan.profile' is '{}', but {}; write another one "
                                            "with 'evener profile', or leave it out",
                                            file, problem)};
    profile.source = fmt::format("{} ({})", file, profile.source);
    return profile;
}

} // namespace

planner::Profile choose_profile(job::Job const& job, program::Plan const& plan,
                                model::Model const& model, std::vector<RankFacts> const& ranks) {
    if (job.plan.profile.empty())
        return estimated_profile(plan, model, ranks);
    return read(job.plan.profile, model, ranks.size());
}

planner::Profile choose_profile(comm::MpiSession const& mpi, job::Job const& job,
                                program::Plan const& plan, model::Model const& model,
                                std::vector<RankFacts> const& ranks) {
    if (job.plan.profile.empty()) {
        planner::Profile profile = estimated_profile(plan, model, ranks);
        profile.network = cluster::measure_network(mpi.world());
        profile.source += " and measured links";
        return profile;
    }
    std::string text;
    together(mpi, mpi.rank() == 0, [&] {
        planner::Profile const profile = read(job.plan.profile, model, ranks.size());
        text = planner::print_profile(profile);
    });
    return planner::parse_profile(mpi.world().broadcast(text), job.plan.profile);
}

} // namespace evener::app
