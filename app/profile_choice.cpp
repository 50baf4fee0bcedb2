// SPDX-License-Identifier: Apache-2.0
#include "app/profile_choice.hpp"

#include "cluster/copies.hpp"
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

namespace {

planner::Profile read_together(comm::MpiSession const& mpi, std::string const& file,
                               model::Model const& model) {
    std::string text;
    together(mpi, mpi.rank() == 0, [&] {
        text = planner::print_profile(read(file, model, static_cast<std::size_t>(mpi.size())));
    });
    return planner::parse_profile(mpi.world().broadcast(text), file);
}

/// Whether some rank makes copies of which the profile does not know the cost.
bool lacks_copies(planner::Profile const& profile, program::Plan const& plan) {
    for (std::size_t r = 0; r < profile.ranks.size(); ++r)
        if (program::offload_of(plan, core::RankId{static_cast<std::int64_t>(r)}).any() &&
            !profile.ranks[r].copies)
            return true;
    return false;
}

} // namespace

planner::Profile choose_profile(comm::MpiSession const& mpi, Engine const& engine,
                                job::Job const& job, program::Plan const& plan,
                                model::Model const& model) {
    planner::Profile profile;
    if (job.plan.profile.empty()) {
        profile = estimated_profile(plan, model, engine.ranks);
        profile.network = cluster::measure_network(mpi.world());
        profile.source += " and measured links";
    } else {
        profile = read_together(mpi, job.plan.profile, model);
    }
    if (lacks_copies(profile, plan)) {
        auto const copies = cluster::measure_copies(mpi.world(), *engine.device);
        for (std::size_t r = 0; r < copies.size(); ++r)
            if (!profile.ranks[r].copies)
                profile.ranks[r].copies = copies[r];
        profile.source += " and measured copies";
    }
    return profile;
}

} // namespace evener::app
