// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random small plans with uneven times, links and memory limits: what the searches are tested on.

#include "schedule/work_graph.hpp"
#include "support/random_plan.hpp"

#include <algorithm>

namespace evener::schedule {

struct GraphShape {
    std::int64_t max_ranks = 4;
    std::int64_t max_microbatches = 6;
    std::int64_t max_chunks = 1; ///< per group
    bool several_ranks = false;  ///< groups with shares or dealt microbatches
};

struct RandomGraph {
    program::Plan plan;
    WorkGraph graph;
};

/// One of `count` steps between 0 and 1: coarse, so that ties occur.
inline double step(support::Random& random, std::int64_t count) {
    return static_cast<double>(random.integer(0, count)) / static_cast<double>(count);
}

inline program::Plan random_paper_plan(support::Random& random, GraphShape const& shape) {
    program::Plan plan;
    std::int64_t const p = random.integer(2, shape.max_ranks);
    std::int64_t next = 0;
    while (next < p) {
        program::Group& group = plan.groups.emplace_back();
        std::int64_t const size =
            shape.several_ranks ? random.integer(1, std::min<std::int64_t>(3, p - next)) : 1;
        for (std::int64_t i = 0; i < size; ++i) {
            group.ranks.emplace_back(next++);
            group.shares.push_back(static_cast<double>(random.integer(1, 3)));
            group.shard_weights.push_back(1);
        }
        if (size > 1 && random.chance(50))
            group.dispatch = program::Dispatch::dealt;
    }
    auto const groups = std::ssize(plan.groups);
    std::int64_t const turns = random.integer(1, shape.max_chunks);
    bool const v = random.chance(50);
    for (std::int64_t c = 0; c < turns * groups; ++c) {
        bool const back = v && c / groups % 2 == 1;
        plan.chunks.push_back(
            {core::GroupId{back ? groups - 1 - c % groups : c % groups}, {c, c + 1}});
    }
    plan.microbatch_size = shape.several_ranks ? random.integer(1, 3) : 1;
    plan.batch_size = random.integer(2, shape.max_microbatches) * plan.microbatch_size -
                      random.integer(0, plan.microbatch_size - 1);
    plan.split_backward = random.chance(70);
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

/// Times up to a factor of 4 apart, in one of four ways without any links.
inline program::Costs random_costs(support::Random& random, program::Plan const& plan) {
    program::Costs costs = program::uniform_costs(plan, {});
    bool const even = random.chance(20);
    for (std::size_t c = 0; c < plan.chunks.size(); ++c)
        for (core::RankId const rank : plan.groups[plan.chunks[c].group.index()].ranks) {
            auto const seconds = [&] { return even ? 1 : 0.5 + 1.5 * step(random, 12); };
            program::ChunkSeconds own{seconds(), seconds(), seconds(), 0};
            own.backward =
                (own.backward_input + own.backward_weight) * (random.chance(25) ? 0.9 : 1);
            costs.chunks[rank.index()][c] = own;
        }
    std::int64_t const p = plan.rank_count();
    costs.network = program::free_network(p);
    if (random.chance(25))
        return costs;
    bool const slow = random.chance(50);
    for (std::int64_t pair = 0; pair < p * p; ++pair) {
        costs.network.routes.push_back(-1);
        if (pair / p != pair % p && random.chance(70)) {
            costs.network.routes.back() = static_cast<std::int32_t>(costs.network.wires.size());
            costs.network.wires.push_back(
                {step(random, 8) * (slow ? 4 : 1), step(random, 8) * (slow ? 2 : 0.5)});
        }
    }
    return costs;
}

/// Limits between what one microbatch needs and what all need, where there are limits.
inline void random_limits(support::Random& random, WorkGraph& graph) {
    for (std::size_t i = 0; i < graph.cells.size(); ++i) {
        Cell& cell = graph.cells[i];
        if (i > 0 && cell.chunk == graph.cells[i - 1].chunk &&
            cell.rank == graph.cells[i - 1].rank) {
            cell.kept_bytes = graph.cells[i - 1].kept_bytes;
            cell.kept_for_weights_bytes = graph.cells[i - 1].kept_for_weights_bytes;
            continue;
        }
        cell.kept_bytes *= 0.5 + step(random, 4);
        if (random.chance(10))
            cell.kept_for_weights_bytes = 0.25 * cell.kept_bytes;
    }
    if (random.chance(20))
        return;
    for (std::size_t r = 0; r < graph.memory_limits.size(); ++r) {
        std::vector<double> microbatches(64);
        for (Cell const& cell : graph.cells)
            if (cell.rank.index() == r)
                microbatches[cell.microbatch.index()] += cell.kept_bytes;
        double all = 0;
        for (double const bytes : microbatches)
            all += bytes;
        double const least = *std::max_element(microbatches.begin(), microbatches.end());
        graph.memory_limits[r] = least + step(random, 6) * (all - least);
    }
}

inline RandomGraph random_graph(support::Random& random, GraphShape const& shape) {
    RandomGraph result;
    result.plan = random_paper_plan(random, shape);
    result.graph = make_work_graph(result.plan, random_costs(random, result.plan), 1);
    random_limits(random, result.graph);
    return result;
}

} // namespace evener::schedule
