// SPDX-License-Identifier: Apache-2.0
#pragma once

// Pipelines on paper over several sites: one rank per group, unit times, and a slow wire in each
// direction between the ranks on both sides of a border. Units: seconds of one rank's forward, and
// activations of one microbatch of one rank.

#include "schedule/work_graph.hpp"

#include <string>

namespace evener::schedule {

struct Sites {
    std::int64_t ranks = 8;
    std::int64_t microbatches = 16;
    std::int64_t sites = 2;
    double latency = 0;
    double occupancy = 0; ///< seconds for which a message holds a slow wire
    double memory = no_memory_limit;
};

/// One chunk per rank, or two in a V.
inline program::Plan sites_plan(Sites const& sites, std::string const& schedule,
                                bool two_chunks = false) {
    program::Plan plan;
    std::int64_t const p = sites.ranks;
    for (std::int64_t g = 0; g < p; ++g)
        plan.groups.push_back({.ranks = {core::RankId{g}}, .shares = {1}, .shard_weights = {1}});
    for (std::int64_t c = 0; c < (two_chunks ? 2 * p : p); ++c)
        plan.chunks.push_back({core::GroupId{std::min(c, 2 * p - 1 - c)}, {c, c + 1}});
    plan.batch_size = sites.microbatches;
    plan.schedule = schedule;
    plan.split_backward = schedule != "1f1b";
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

inline WorkGraph sites_graph(Sites const& sites, program::Plan const& plan) {
    std::int64_t const p = sites.ranks;
    double const part = static_cast<double>(p) / static_cast<double>(plan.chunks.size());
    program::Costs costs = program::uniform_costs(plan, {part, part, part, 2 * part});
    costs.network = program::free_network(p);
    costs.network.routes.assign(static_cast<std::size_t>(p * p), -1);
    for (std::int64_t site = 1; site < sites.sites; ++site) {
        std::int64_t const border = site * p / sites.sites;
        for (auto const& [src, dst] : {std::pair{border - 1, border}, {border, border - 1}}) {
            costs.network.routes[static_cast<std::size_t>(src * p + dst)] =
                static_cast<std::int32_t>(costs.network.wires.size());
            costs.network.wires.push_back({sites.latency, sites.occupancy});
        }
    }
    return make_work_graph(plan, costs, 1,
                           std::vector<double>(static_cast<std::size_t>(p), sites.memory));
}

} // namespace evener::schedule
