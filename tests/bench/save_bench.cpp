// SPDX-License-Identifier: Apache-2.0

// What a save beside training costs. One rank trains a model with 100 MB of state and saves behind
// the first step of each round; the steps that the save runs beside are compared with the round's
// later ones, which it does not touch: more of them between two saves would change neither. One JSON
// line: `cost_share`, the median over rounds of (time held up at the boundary + what the steps beside
// the save took longer) / time of a step, judged: below 0.05; `blocked_share`: of it, what the
// training waited for the snapshot and the phases' agreements. A batch is SEQUENCES of 512 tokens.
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

constexpr int rounds = 10;
constexpr int untouched_steps = 5;

struct Round {
    double cost_seconds = 0;
    double step_seconds = 0; ///< median of the untouched steps
    double save_seconds = 0;
    double blocked_seconds = 0;
};

/// The steps of a round as the trainer makes them. The checkpoint is gone afterwards.
Round run(bench::Training& training, runtime::Saver& saver, std::string const& out) {
    Round round;
    auto const step = [&] {
        auto const begin = std::chrono::steady_clock::now();
        training.session().state().late_requests = [&] { return saver.requests(); };
        training.step();
        if (auto const saved = saver.advance(training.session().state().scalars.requests)) {
            round.save_seconds = saved->seconds;
            round.blocked_seconds = saved->seconds - saved->beside_seconds;
        }
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    };
    step();
    checkpoints::Description description;
    description.state.step = training.session().state().step;
    auto const begin = std::chrono::steady_clock::now();
    saver.start(out, std::move(description), {});
    round.cost_seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    int beside = 0;
    for (; saver.active(); ++beside)
        round.cost_seconds += step();
    std::vector<double> untouched;
    for (int i = 0; i < untouched_steps; ++i)
        untouched.push_back(step());
    round.step_seconds = bench::median(untouched);
    round.cost_seconds -= beside * round.step_seconds;
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
    std::int64_t const sequences = argc > 3 ? std::atoll(argv[3]) : 32;
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
    run(training, saver, out); // warm
    std::vector<double> costs;
    std::vector<double> step_seconds;
    std::vector<double> save_seconds;
    std::vector<double> blocked;
    for (int i = 0; i < rounds; ++i) {
        Round const round = run(training, saver, out);
        costs.push_back(round.cost_seconds / round.step_seconds);
        step_seconds.push_back(round.step_seconds);
        save_seconds.push_back(round.save_seconds);
        blocked.push_back(round.blocked_seconds / round.step_seconds);
    }
    fmt::print("{{\"bench\": \"save\", \"state_mb\": {:.1f}, \"cost_share\": {:.3f}, "
               "\"cost_share_least\": {:.3f}, \"cost_share_most\": {:.3f}, \"blocked_share\": "
               "{:.3f}, \"step_seconds\": {:.3f}, \"save_seconds\": {:.3f}, \"n\": {}, "
               "\"threads\": {}, \"baseline\": \"the median of {} steps without a save in the "
               "same round\"}}\n",
               12e-6 * static_cast<double>(model.parameter_elements()), bench::median(costs),
               *std::min_element(costs.begin(), costs.end()),
               *std::max_element(costs.begin(), costs.end()), bench::median(blocked),
               bench::median(step_seconds), bench::median(save_seconds), rounds, threads,
               untouched_steps);
}
