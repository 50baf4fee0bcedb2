// SPDX-License-Identifier: Apache-2.0

// Time of simulating the programs of 16 groups with 256 microbatches under 1F1B, with links that
// have latency and bandwidth, and of making them. One JSON line, medians of 5:
//   bin/simulate_bench
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "schedule/simulator.hpp"
#include "schedule/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

namespace {

using namespace evener;

constexpr std::int64_t groups = 16;
constexpr std::int64_t microbatches = 256;
constexpr int runs = 5;

program::Plan chain(model::Model const& model) {
    program::Plan plan;
    for (std::int64_t g = 0; g < groups; ++g) {
        plan.groups.push_back({.ranks = {core::RankId{g}}, .shares = {1}, .shard_weights = {1}});
        plan.chunks.push_back(
            {core::GroupId{g}, {2 * g, g + 1 < groups ? 2 * g + 2 : model.layer_count()}});
    }
    plan.batch_size = microbatches;
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

template <class Call>
double seconds_of(Call const& call) {
    auto const start = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Figure {
    double median = 0;
    double worst = 0;
};

template <class Call>
Figure figure(Call const& call) {
    std::vector<double> seconds;
    for (int run = 0; run < runs; ++run)
        seconds.push_back(seconds_of(call));
    std::sort(seconds.begin(), seconds.end());
    return {seconds[runs / 2], seconds.back()};
}

} // namespace

int main() {
    model::ModelConfig config;
    config.decoder_layers = groups;
    model::Model const model{config};
    program::Plan const plan = chain(model);
    program::Costs costs = program::uniform_costs(plan, {1, 1, 1, 2});
    double const bytes = 1e6;
    costs.network = program::uniform_network(groups, {0.1, 0.1 / bytes});
    std::vector<std::int64_t> const workspace(groups);
    auto const schedule = schedule::generate(plan, program::ProgramKind::train);
    program::ProgramSet set;
    Figure const lower = figure([&] {
        set = schedule::lower(plan, model, schedule, {.device_workspace_bytes = workspace});
    });
    auto const seconds = program::instruction_seconds(costs, set);
    Figure const simulate = figure([&] { schedule::simulate(set, seconds, costs.network); });
    double const verify = seconds_of([&] { schedule::verify(set, model, workspace); });
    std::size_t instructions = 0;
    for (program::Program const& program : set.programs)
        instructions += program.instructions.size();
    fmt::print("{{\"bench\": \"simulate\", \"simulate_seconds\": {:.4f}, "
               "\"simulate_seconds_worst\": {:.4f}, \"lower_seconds\": {:.3f}, "
               "\"verify_seconds\": {:.3f}, \"instructions\": {}, \"n\": {}}}\n",
               simulate.median, simulate.worst, lower.median, verify, instructions, runs);
}
