// SPDX-License-Identifier: Apache-2.0

// What a save beside training costs. One rank trains a model with 100 MB of state; rounds of 20 steps
// with a save behind the first one and rounds without one take turns. One JSON line: `cost_share`,
// the median over rounds of (time with - time without) / time of a step, judged: below 0.05;
// `blocked_share`: of it, what the training waited for the snapshot and the phases' agreements.
//   bin/save_bench [FOLDER [THREADS [SEQUENCES]]]
#include "runtime/saving.hpp"

#include "bench/training.hpp"
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

using namespace evener;

constexpr int rounds = 5;
constexpr int steps = 20;

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

struct Round {
    double seconds = 0;
    double save_seconds = 0;
    double blocked_seconds = 0;
};

/// The steps of a round as the trainer makes them. The checkpoint is gone afterwards.
Round run(bench::Training& training, runtime::Saver& saver, std::string const& out, bool saves) {
    Round round;
    double const begin = now();
    for (int step = 0; step < steps; ++step) {
        training.session().state().requests = saver.requests();
        training.step();
        auto saved = saver.advance(training.session().state().scalars.requests);
        if (saves && step == 0) {
            checkpoints::Description description;
            description.state.step = training.session().state().step;
            saver.start(out, std::move(description), {});
        }
        if (saves && step == steps - 1 && !saved)
            saved = saver.finish(); // of this round, however long it takes
        if (saved) {
            round.save_seconds = saved->seconds;
            round.blocked_seconds = saved->seconds - saved->beside_seconds;
        }
    }
    round.seconds = now() - begin;
    std::filesystem::remove_all(out);
    return round;
}

} // namespace

int main(int argc, char** argv) {
    std::string const out =
        argc > 1
            ? argv[1]
            : (std::filesystem::temp_directory_path() / fmt::format("evener-save-{}", ::getpid()))
                  .string();
    int const threads = argc > 2 ? std::atoi(argv[2]) : 2;
    std::int64_t const sequences = argc > 3 ? std::atoll(argv[3]) : 8;
    setenv("OMP_NUM_THREADS", std::to_string(threads).c_str(), 0);
    comm::MpiSession const mpi{nullptr, nullptr};
    comm::Transport transport{mpi.world().get()};
    model::ModelConfig config = bench::speed_model();
    config.decoder_layers = 2;
    config.vocabulary = 2048;
    model::Model const model{config};
    bench::Training training{mpi,
                             transport,
                             model,
                             bench::chain_plan(model, {0}, sequences,
                                               std::max<std::int64_t>(1, sequences / 4),
                                               core::DType::float32),
                             {.threads = threads}};
    runtime::Saver saver{{mpi.world(), mpi.node()}, training.session(), runtime::state_kinds(true)};
    run(training, saver, out, true); // warm
    std::vector<double> costs;
    std::vector<double> step_seconds;
    std::vector<double> save_seconds;
    std::vector<double> blocked;
    for (int i = 0; i < rounds; ++i) {
        // Which comes first takes turns too.
        bool const saves_first = i % 2 == 0;
        Round const first = run(training, saver, out, saves_first);
        Round const second = run(training, saver, out, !saves_first);
        Round const& with = saves_first ? first : second;
        Round const& without = saves_first ? second : first;
        double const step = without.seconds / steps;
        costs.push_back((with.seconds - without.seconds) / step);
        step_seconds.push_back(step);
        save_seconds.push_back(with.save_seconds);
        blocked.push_back(with.blocked_seconds / step);
    }
    fmt::print("{{\"bench\": \"save\", \"state_mb\": {:.1f}, \"cost_share\": {:.3f}, "
               "\"cost_share_least\": {:.3f}, \"cost_share_most\": {:.3f}, \"blocked_share\": "
               "{:.3f}, \"step_seconds\": {:.3f}, \"save_seconds\": {:.3f}, \"steps_apart\": {}, "
               "\"n\": {}, \"threads\": {}, \"baseline\": \"the same steps without a save\"}}\n",
               12e-6 * static_cast<double>(model.parameter_elements()), bench::median(costs),
               *std::min_element(costs.begin(), costs.end()),
               *std::max_element(costs.begin(), costs.end()), bench::median(blocked),
               bench::median(step_seconds), bench::median(save_seconds), steps, rounds, threads);
}
