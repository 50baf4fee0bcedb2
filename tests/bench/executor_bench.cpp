// SPDX-License-Identifier: Apache-2.0

// What the executor adds to a step: 8 stages of one rank, 64 microbatches, whose computations sleep
// for 5 ms each instead of computing. Messages, waits and scalars are real. Three orders of work: the
// greedy search's, which is told that a message takes 2 ms and so keeps more microbatches under way,
// GPipe, and strict 1F1B, where nearly every message is waited for. The baseline is the same programs
// simulated with the durations that the sleeps really had and with messages that take no time. One
// JSON line per order from rank 0; `overhead` is the step's own time over the baseline, less one,
// median of 5 steps; `overhead_nominal` is the same over sleeps of 5 ms sharp.
//   mpirun -n 8 --oversubscribe --bind-to none bin/executor_bench
#include "runtime/step_measurement.hpp"
#include "schedule/generators.hpp"
#include "schedule/greedy.hpp"
#include "schedule/simulator.hpp"

#include "bench/training.hpp"
#include <fmt/format.h>

#include <algorithm>

namespace {

using namespace evener;

constexpr std::int64_t stages = 8;
constexpr std::int64_t microbatches = 64;
constexpr double work_seconds = 5e-3;
constexpr double message_seconds = 2e-3;
constexpr int steps = 5;

model::ModelConfig small_model() {
    model::ModelConfig config;
    config.vocabulary = 64;
    config.hidden_size = 64;
    config.decoder_layers = 8;
    config.heads = config.kv_heads = 1;
    config.head_size = 64;
    config.ffn_size = 64;
    config.sequence_length = 16;
    return config;
}

double baseline(program::ProgramSet const& set, program::InstructionSeconds const& seconds) {
    return schedule::simulate(set, seconds, program::free_network(stages)).seconds;
}

program::InstructionSeconds own_seconds(program::Timeline const& timeline) {
    program::InstructionSeconds seconds;
    for (auto const& rank : timeline.ranks) {
        auto& own = seconds.emplace_back();
        for (program::Span const& span : rank)
            own.push_back(span.seconds());
    }
    return seconds;
}

/// Backward whole, as the sleeps of 5 ms have it.
program::Costs sleeping_costs(program::Plan const& plan) {
    program::Costs costs = program::uniform_costs(
        plan, {work_seconds, work_seconds / 2, work_seconds / 2, work_seconds});
    costs.network = program::uniform_network(stages, {message_seconds, 0});
    return costs;
}

void measure(comm::MpiSession const& mpi, comm::Transport& transport, model::Model const& model,
             program::Plan const& plan, program::Schedule const& schedule) {
    program::Costs const costs = sleeping_costs(plan);
    bench::Training training{
        mpi,
        transport,
        model,
        plan,
        {.schedule = &schedule, .costs = &costs, .work_seconds = work_seconds}};
    program::ProgramSet const& set = training.session().sets();
    double const nominal = baseline(set, program::instruction_seconds(costs, set));
    training.step();
    std::vector<double> overheads;
    std::vector<double> nominal_overheads;
    for (int step = 0; step < steps; ++step) {
        training.step();
        program::Timeline const timeline =
            runtime::gather_measurement(mpi.world(), training.session()).timeline;
        overheads.push_back(timeline.seconds() / baseline(set, own_seconds(timeline)) - 1);
        nominal_overheads.push_back(timeline.seconds() / nominal - 1);
    }
    if (mpi.rank() == 0)
        fmt::print("{{\"bench\": \"executor\", \"schedule\": \"{}\", \"overhead\": {:.4f}, "
                   "\"overhead_worst\": {:.4f}, \"overhead_best\": {:.4f}, "
                   "\"overhead_nominal\": {:.4f}, \"baseline_seconds\": {:.3f}, \"n\": {}, "
                   "\"baseline\": \"the programs simulated with the sleeps' own durations and free "
                   "messages\"}}\n",
                   schedule.name, bench::median(overheads),
                   *std::max_element(overheads.begin(), overheads.end()),
                   *std::min_element(overheads.begin(), overheads.end()),
                   bench::median(nominal_overheads), nominal, steps);
}

/// With whole backwards only: halves would be other sleeps.
program::Schedule fused(program::Schedule schedule) {
    for (auto& order : schedule.ranks) {
        std::erase_if(order, [](program::Work const& work) {
            return work.kind == program::WorkKind::backward_weight;
        });
        for (program::Work& work : order)
            if (work.kind == program::WorkKind::backward_input)
                work.kind = program::WorkKind::backward;
    }
    return schedule;
}

} // namespace

int main() {
    comm::MpiSession const mpi{nullptr, nullptr};
    if (mpi.size() != stages) {
        fmt::print(stderr, "run it with {} ranks\n", stages);
        return 2;
    }
    comm::Transport transport{mpi.world().get()};
    model::Model const model{small_model()};
    std::vector<std::int64_t> cuts;
    for (std::int64_t g = 0; g < stages; ++g)
        cuts.push_back(2 * g);
    program::Plan const plan =
        bench::chain_plan(model, cuts, microbatches, 1, core::DType::float32);
    schedule::WorkGraph const graph = schedule::make_work_graph(plan, model, sleeping_costs(plan));
    measure(mpi, transport, model, plan, fused(schedule::greedy(graph)));
    program::Plan named = plan;
    for (char const* const name : {"gpipe", "1f1b"}) {
        named.schedule = name;
        measure(mpi, transport, model, named,
                schedule::generate(named, program::ProgramKind::train));
    }
}
