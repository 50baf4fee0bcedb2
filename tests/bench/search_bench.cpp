// SPDX-License-Identifier: Apache-2.0

// Time of searching and of evaluating schedules of large plans with uneven groups and slow links.
// One JSON line:
//   bin/search_bench
#include "schedule/generators.hpp"
#include "schedule/greedy.hpp"

#include <fmt/format.h>

#include <chrono>

namespace {

using namespace evener;

/// One rank per group, times that differ by up to a half, a wire between each pair of neighbours.
schedule::WorkGraph uneven_graph(std::int64_t groups, std::int64_t microbatches, double memory) {
    program::Plan plan;
    for (std::int64_t g = 0; g < groups; ++g) {
        plan.groups.push_back({.ranks = {core::RankId{g}}, .shares = {1}, .shard_weights = {1}});
        plan.chunks.push_back({core::GroupId{g}, {g, g + 1}});
    }
    plan.batch_size = microbatches;
    plan.boundary_types = program::default_boundary_types(plan);
    program::Costs costs = program::uniform_costs(plan, {});
    for (std::int64_t g = 0; g < groups; ++g) {
        double const scale = 1 + 0.05 * static_cast<double>(g * 7 % 11);
        costs.chunks[static_cast<std::size_t>(g)][static_cast<std::size_t>(g)] = {
            scale, 1.1 * scale, 0.9 * scale, 2 * scale};
    }
    costs.network = program::uniform_network(groups, {0.1, 0.3});
    return schedule::make_work_graph(plan, costs, 1,
                                     std::vector<double>(static_cast<std::size_t>(groups), memory));
}

template <class Call>
double seconds_of(Call const& call) {
    auto const start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

} // namespace

int main() {
    schedule::WorkGraph const large = uneven_graph(64, 512, 96);
    program::Schedule found;
    double const greedy = seconds_of([&] { found = schedule::greedy(large); });
    double const evaluate = seconds_of([&] { schedule::evaluate(large, found); });

    schedule::WorkGraph const middle = uneven_graph(16, 256, 24);
    program::Schedule const order = schedule::list_schedule(middle, {});
    double const smaller = seconds_of([&] { schedule::evaluate(middle, order); });
    fmt::print("{{\"bench\": \"search\", \"greedy_64x512_s\": {:.3f}, \"evaluate_64x512_s\": "
               "{:.4f}, \"evaluate_16x256_s\": {:.4f}}}\n",
               greedy, evaluate, smaller);
}
