// SPDX-License-Identifier: Apache-2.0
#include "schedule/contention.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace evener::schedule {

namespace {

constexpr int most_rounds = 10;
constexpr double settled = 1e-3;

bool computes(program::Program const& program, std::size_t instruction) {
    return program.queues[program.instructions[instruction].queue.index()].kind ==
           program::QueueKind::compute;
}

/// When one rank computes; its computations do not overlap each other.
class BusyTime {
  public:
    BusyTime(program::Program const& program, std::vector<program::Span> const& spans) {
        for (std::size_t i = 0; i < spans.size(); ++i)
            if (computes(program, i) && spans[i].seconds() > 0)
                spans_.push_back(spans[i]);
        std::sort(spans_.begin(), spans_.end(),
                  [](auto const& a, auto const& b) { return a.start < b.start; });
        double sum = 0;
        for (program::Span const& span : spans_)
            before_.push_back(std::exchange(sum, sum + span.seconds()));
    }

    double within(program::Span const& span) const { return until(span.end) - until(span.start); }

  private:
    double until(double time) const {
        auto const next = std::partition_point(spans_.begin(), spans_.end(),
                                               [&](auto const& span) { return span.start < time; });
        if (next == spans_.begin())
            return 0;
        auto const last = std::prev(next);
        return before_[static_cast<std::size_t>(last - spans_.begin())] +
               std::min(time, last->end) - last->start;
    }

    std::vector<program::Span> spans_;
    std::vector<double> before_; ///< seconds of all spans before each
};

} // namespace

std::vector<std::vector<double>> busy_neighbours(program::ProgramSet const& set,
                                                 program::Timeline const& timeline,
                                                 std::vector<int> const& nodes) {
    std::vector<BusyTime> busy;
    for (std::size_t r = 0; r < set.programs.size(); ++r)
        busy.emplace_back(set.programs[r], timeline.ranks[r]);
    std::vector<std::vector<double>> result;
    for (std::size_t r = 0; r < set.programs.size(); ++r) {
        std::vector<double>& own = result.emplace_back(timeline.ranks[r].size(), 0.0);
        for (std::size_t other = 0; other < busy.size(); ++other) {
            if (other == r || nodes[other] != nodes[r])
                continue;
            for (std::size_t i = 0; i < own.size(); ++i)
                if (program::Span const& span = timeline.ranks[r][i];
                    computes(set.programs[r], i) && span.seconds() > 0)
                    own[i] += busy[other].within(span) / span.seconds();
        }
    }
    return result;
}

Simulation simulate_contended(program::ProgramSet const& set, program::Costs const& costs) {
    program::InstructionSeconds seconds = program::instruction_seconds(costs, set);
    Simulation simulation = simulate(set, seconds, costs.network);
    if (std::all_of(costs.contention.begin(), costs.contention.end(),
                    [](double contention) { return contention == 0; }))
        return simulation;
    program::InstructionSeconds const alone = program::seconds_alone(costs, set);
    for (int round = 0; round < most_rounds; ++round) {
        auto const neighbours = busy_neighbours(set, simulation.timeline, costs.nodes);
        for (std::size_t r = 0; r < seconds.size(); ++r)
            for (std::size_t i = 0; i < seconds[r].size(); ++i)
                if (program::computes_layers(set.programs[r].instructions[i].operation))
                    seconds[r][i] = alone[r][i] * (1 + costs.contention[r] * neighbours[r][i]);
        double const before = simulation.seconds;
        simulation = simulate(set, seconds, costs.network);
        if (std::abs(simulation.seconds - before) < settled * before)
            break;
    }
    return simulation;
}

} // namespace evener::schedule
