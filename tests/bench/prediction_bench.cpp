// SPDX-License-Identifier: Apache-2.0

// How well a calibration under 1F1B predicts the step time of every other schedule of the same job:
// two ranks with one thread each, several models and sequence lengths. Layers' seconds and links
// are measured in steps under 1F1B; from these alone each schedule's step time is simulated and
// printed, and only then it runs. Beside it a replay: the programs simulated with the durations
// that their own run had, which shows what the simulator itself gets wrong. One line per schedule
// on stderr, one JSON line on stdout. Run alone on the machine:
//   mpirun -n 2 --bind-to none bin/prediction_bench [SHAPE]
// SHAPE, such as "deep and narrow, 128", runs those whose name contains it.
#include "cluster/links.hpp"
#include "planner/profile.hpp"
#include "runtime/step_measurement.hpp"
#include "schedule/contention.hpp"
#include "schedule/generators.hpp"

#include "bench/training.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace {

using namespace evener;

constexpr std::int64_t microbatches = 8;
constexpr int warm_up_steps = 1;
constexpr int steps = 5;
constexpr int calibration_steps = 10; ///< of each of the two runs

struct Shape {
    char const* name;
    model::ModelConfig config;
};

model::ModelConfig config(std::int64_t vocabulary, std::int64_t hidden, std::int64_t layers) {
    model::ModelConfig result;
    result.vocabulary = vocabulary;
    result.hidden_size = hidden;
    result.decoder_layers = layers;
    result.head_size = 64;
    result.heads = result.kv_heads = hidden / 64;
    result.ffn_size = hidden * 11 / 4;
    return result;
}

std::vector<Shape> shapes() {
    return {{"even", config(4096, 384, 8)},
            {"large vocabulary", config(24576, 320, 6)},
            {"deep and narrow", config(2048, 192, 20)},
            {"wide and shallow", config(4096, 640, 4)}};
}

struct Candidate {
    std::string schedule;
    std::vector<std::int64_t> groups; ///< of each chunk
};

std::vector<Candidate> candidates() {
    return {{"gpipe", {0, 1}},
            {"zb-h1", {0, 1}},
            {"zb-h2", {0, 1}},
            {"interleaved", {0, 1, 0, 1}},
            {"breadth_first", {0, 1, 0, 1}},
            {"zb-v", {0, 1, 1, 0}}};
}

/// Layers cut so that the chunks' FLOPs differ as little as whole layers allow.
program::Plan make_plan(model::Model const& model, Candidate const& candidate) {
    program::Plan plan = bench::chain_plan(model, {0, 1}, microbatches, 1, core::DType::float32);
    plan.schedule = candidate.schedule;
    plan.chunks.clear();
    double total = 0;
    for (std::int64_t l = 0; l < model.layer_count(); ++l)
        total += model.layer(core::LayerId{l}).forward_flops();
    double sum = 0;
    std::int64_t begin = 0;
    auto const count = static_cast<std::int64_t>(candidate.groups.size());
    for (std::int64_t c = 0; c < count; ++c) {
        std::int64_t end = begin + 1;
        sum += model.layer(core::LayerId{begin}).forward_flops();
        while (end < model.layer_count() - (count - 1 - c) &&
               sum + model.layer(core::LayerId{end}).forward_flops() / 2 <
                   total * static_cast<double>(c + 1) / static_cast<double>(count))
            sum += model.layer(core::LayerId{end++}).forward_flops();
        if (c + 1 == count)
            end = model.layer_count();
        plan.chunks.push_back(
            {core::GroupId{candidate.groups[static_cast<std::size_t>(c)]}, {begin, end}});
        begin = end;
    }
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

double simulated(program::ProgramSet const& set, program::InstructionSeconds const& seconds,
                 program::Network const& network) {
    return schedule::simulate(set, seconds, network).seconds;
}

/// What the computations of a run really took.
program::InstructionSeconds own_seconds(program::ProgramSet const& set,
                                        program::Timeline const& timeline) {
    program::InstructionSeconds seconds;
    for (std::size_t r = 0; r < set.programs.size(); ++r) {
        auto& own = seconds.emplace_back();
        for (std::size_t i = 0; i < set.programs[r].instructions.size(); ++i)
            own.push_back(timeline.ranks[r][i].seconds());
    }
    return seconds;
}

/// By how much each kind of computation was predicted too slow: "F +1.0 % BW -2.3 %".
std::string kinds_of(program::ProgramSet const& set, program::InstructionSeconds const& predicted,
                     std::vector<program::InstructionSeconds> const& measured) {
    struct Sums {
        double predicted = 0;
        std::vector<double> measured;
    };
    std::map<std::string, Sums> kinds;
    for (std::size_t r = 0; r < set.programs.size(); ++r)
        for (std::size_t i = 0; i < set.programs[r].instructions.size(); ++i) {
            program::Operation const& operation = set.programs[r].instructions[i].operation;
            char const* const kind = std::visit(
                [](auto const& op) -> char const* {
                    using Op = std::decay_t<decltype(op)>;
                    if constexpr (std::is_same_v<Op, program::Forward>)
                        return "F";
                    else if constexpr (std::is_same_v<Op, program::Backward>)
                        return "BW";
                    else if constexpr (std::is_same_v<Op, program::BackwardInput>)
                        return "B";
                    else if constexpr (std::is_same_v<Op, program::BackwardWeight>)
                        return "W";
                    else
                        return nullptr;
                },
                operation);
            if (kind == nullptr)
                continue;
            Sums& sums = kinds[fmt::format("rank {} {}", r, kind)];
            sums.predicted += predicted[r][i];
            sums.measured.resize(measured.size());
            for (std::size_t s = 0; s < measured.size(); ++s)
                sums.measured[s] += measured[s][r][i];
        }
    std::string text;
    for (auto const& [name, sums] : kinds)
        text += fmt::format("  {} {:+.1f} %", name,
                            100 * (sums.predicted / bench::median(sums.measured) - 1));
    return text;
}

std::vector<program::Measurement> run_steps(comm::MpiSession const& mpi, bench::Training& training,
                                            int steps) {
    std::vector<program::Measurement> result;
    for (int step = 0; step < warm_up_steps + steps; ++step) {
        training.step();
        auto measurement = runtime::gather_measurement(mpi.world(), training.session());
        if (step >= warm_up_steps)
            result.push_back(std::move(measurement));
    }
    return result;
}

struct Result {
    double prediction_error = 0; ///< of the median step, relative
    double replay_error = 0;     ///< median over the steps, relative
};

class Bench {
  public:
    explicit Bench(comm::MpiSession const& mpi) : mpi_{mpi}, transport_{mpi.world().get()} {}

    void run(Shape const& shape, std::int64_t sequence_length) {
        model::ModelConfig config = shape.config;
        config.sequence_length = sequence_length;
        model::Model const model{config};
        planner::Profile const profile = calibrate(model);
        for (Candidate const& candidate : candidates())
            predict(
                fmt::format("{}, {} tokens, {}", shape.name, sequence_length, candidate.schedule),
                model, profile, make_plan(model, candidate));
    }

    void print() const {
        if (mpi_.rank() != 0)
            return;
        std::vector<double> prediction;
        std::vector<double> replay;
        for (Result const& result : results_) {
            prediction.push_back(std::abs(result.prediction_error));
            replay.push_back(std::abs(result.replay_error));
        }
        auto const mean = [](std::vector<double> const& values) {
            double sum = 0;
            for (double const value : values)
                sum += value;
            return sum / static_cast<double>(values.size());
        };
        fmt::print("{{\"bench\": \"prediction\", \"mean_error\": {:.4f}, \"worst_error\": {:.4f}, "
                   "\"replay_mean_error\": {:.4f}, \"replay_worst_error\": {:.4f}, \"cases\": {}, "
                   "\"n\": {}, \"baseline\": \"median of {} measured steps of each schedule\"}}\n",
                   mean(prediction), *std::max_element(prediction.begin(), prediction.end()),
                   mean(replay), *std::max_element(replay.begin(), replay.end()), results_.size(),
                   steps, steps);
    }

  private:
    /// Steps under 1F1B with the backward whole, and as many with it in halves.
    planner::Profile calibrate(model::Model const& model) {
        std::vector<planner::CalibrationRun> runs;
        for (bool const split : {false, true}) {
            program::Plan plan = make_plan(model, {"1f1b", {0, 1}});
            plan.split_backward = split;
            bench::Training training{mpi_, transport_, model, plan};
            auto measured = run_steps(mpi_, training, calibration_steps);
            runs.push_back({training.session().sets(), std::move(measured)});
        }
        return planner::measured_profile(runs, model,
                                         comm::lowest_of_nodes(mpi_.world(), mpi_.node()),
                                         cluster::measure_network(mpi_.world()));
    }

    void predict(std::string const& name, model::Model const& model,
                 planner::Profile const& profile, program::Plan const& plan) {
        program::Costs const costs = planner::costs_of(profile, plan, model);
        bench::Training training{mpi_, transport_, model, plan, {.costs = &costs}};
        program::ProgramSet const& set = training.session().sets();
        schedule::Simulation const simulation = schedule::simulate_contended(set, costs);
        auto const predicted_seconds = own_seconds(set, simulation.timeline);
        double const predicted = simulation.seconds;
        if (mpi_.rank() == 0)
            fmt::print(stderr, "{:46} predicted {:8.2f} ms", name, 1e3 * predicted);
        std::vector<double> seconds;
        std::vector<double> replays;
        std::vector<program::InstructionSeconds> own;
        for (program::Measurement const& step : run_steps(mpi_, training, steps)) {
            seconds.push_back(step.timeline.seconds());
            own.push_back(own_seconds(set, step.timeline));
            replays.push_back(simulated(set, own.back(), costs.network) / seconds.back() - 1);
        }
        double const median = bench::median(seconds);
        results_.push_back({predicted / median - 1, bench::median(replays)});
        if (mpi_.rank() == 0)
            fmt::print(stderr,
                       "  measured {:8.2f} ({:.2f} to {:.2f})  error {:+5.1f} %  replay {:+5.2f} "
                       "%\n{}\n",
                       1e3 * median, 1e3 * *std::min_element(seconds.begin(), seconds.end()),
                       1e3 * *std::max_element(seconds.begin(), seconds.end()),
                       100 * results_.back().prediction_error, 100 * results_.back().replay_error,
                       kinds_of(set, predicted_seconds, own));
    }

    comm::MpiSession const& mpi_;
    comm::Transport transport_;
    std::vector<Result> results_;
};

} // namespace

int main(int argc, char** argv) {
    comm::MpiSession const mpi{nullptr, nullptr};
    if (mpi.size() != 2) {
        fmt::print(stderr, "run it with 2 ranks\n");
        return 2;
    }
    Bench bench{mpi};
    for (Shape const& shape : shapes())
        for (std::int64_t const sequence_length : {128, 256}) {
            std::string const name = fmt::format("{}, {} tokens", shape.name, sequence_length);
            if (argc < 2 || name.find(argv[1]) != std::string::npos)
                bench.run(shape, sequence_length);
        }
    bench.print();
}
