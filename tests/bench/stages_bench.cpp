// SPDX-License-Identifier: Apache-2.0

// Two ranks with one thread each as two stages under 1F1B, against what the schedule's bubble
// allows: the time the same order of computations takes when each lasts as long as it was measured
// and messages and waiting cost nothing. One JSON line from rank 0; `share` is that ideal over the
// step's own time, median of 5 steps. Run alone on the machine:
//   mpirun -n 2 --bind-to none bin/stages_bench
#include "schedule/generators.hpp"

#include "bench/training.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace {

using namespace evener;

constexpr std::int64_t microbatches = 8;

/// Work of one rank in order, with its seconds; in front of and behind it what else it computed.
struct RankTimes {
    std::vector<double> work;
    double rest = 0;
};

RankTimes times_of(runtime::Session& session) {
    program::Program const& program =
        session.sets().programs[static_cast<std::size_t>(session.rank().value)];
    RankTimes times;
    for (std::size_t i = 0; i < program.instructions.size(); ++i) {
        program::Instruction const& instruction = program.instructions[i];
        if (program.queues[instruction.queue.index()].kind != program::QueueKind::compute)
            continue;
        auto const span = session.train_board().times(core::InstructionId{std::int64_t(i)});
        if (std::holds_alternative<program::Forward>(instruction.operation) ||
            std::holds_alternative<program::Backward>(instruction.operation))
            times.work.push_back(span.end - span.start);
        else
            times.rest += span.end - span.start;
    }
    return times;
}

/// Length of the step when both ranks do their work in the schedule's order without delays.
double ideal_seconds(program::Plan const& plan, std::vector<RankTimes> const& times) {
    auto const schedule = schedule::generate(plan, program::ProgramKind::train);
    std::map<std::tuple<int, int, int>, double> ends; // kind, chunk, microbatch
    std::vector<std::size_t> next(2);
    std::vector<double> clock(2);
    for (bool progress = true; progress;) {
        progress = false;
        for (std::size_t r = 0; r < 2; ++r)
            while (next[r] < schedule.ranks[r].size()) {
                program::Work const& work = schedule.ranks[r][next[r]];
                bool const forward = work.kind == program::WorkKind::forward;
                int const other = forward ? work.chunk.value - 1 : work.chunk.value + 1;
                double ready = 0;
                if (other >= 0 && other < 2) {
                    auto const found = ends.find({forward ? 0 : 1, other, work.microbatch.value});
                    if (found == ends.end())
                        break;
                    ready = found->second;
                }
                clock[r] = std::max(clock[r], ready) + times[r].work[next[r]];
                ends[{forward ? 0 : 1, work.chunk.value, work.microbatch.value}] = clock[r];
                ++next[r];
                progress = true;
            }
    }
    return std::max(clock[0] + times[0].rest, clock[1] + times[1].rest);
}

} // namespace

int main() {
    comm::MpiSession const mpi{nullptr, nullptr};
    if (mpi.size() != 2) {
        fmt::print(stderr, "run it with 2 ranks\n");
        return 2;
    }
    comm::Transport transport{mpi.world().get()};
    model::Model const model{bench::speed_model()};
    // The head weighs as much as a few layers, so the second stage has fewer of them.
    program::Plan const plan =
        bench::chain_plan(model, {0, 10}, microbatches, 1, core::DType::float32);
    bench::Training training{mpi, transport, model, plan};
    training.step();
    training.step();
    std::vector<double> shares;
    std::vector<double> steps;
    for (int run = 0; run < 5; ++run) {
        double const seconds = training.step();
        RankTimes const mine = times_of(training.session());
        auto const work = comm::all_gather_values(mpi.world(), std::span<double const>{mine.work});
        auto const rest =
            comm::all_gather_values(mpi.world(), std::span<double const>{&mine.rest, 1});
        double const slowest = mpi.world().all_max(std::vector<double>{seconds}).front();
        double const ideal = ideal_seconds(plan, {{work[0], rest[0][0]}, {work[1], rest[1][0]}});
        shares.push_back(ideal / slowest);
        steps.push_back(slowest);
    }
    if (mpi.rank() == 0)
        fmt::print("{{\"bench\": \"stages\", \"share\": {:.3f}, \"share_worst\": {:.3f}, "
                   "\"share_best\": {:.3f}, \"step_seconds\": {:.4f}, \"n\": {}, "
                   "\"microbatches\": {}, \"baseline\": \"the schedule's own order with the "
                   "measured durations and no communication\"}}\n",
                   bench::median(shares), *std::min_element(shares.begin(), shares.end()),
                   *std::max_element(shares.begin(), shares.end()), bench::median(steps),
                   shares.size(), microbatches);
}
