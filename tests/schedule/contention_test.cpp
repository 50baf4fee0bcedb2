// SPDX-License-Identifier: Apache-2.0
#include "schedule/contention.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "support/random_costs.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace evener::schedule {
namespace {

struct Case {
    program::ProgramSet set;
    program::Costs costs;
};

Case random_case(std::uint64_t seed) {
    support::Random random{seed};
    support::RandomCase const c =
        random.chance(50) ? support::random_looped_case(random) : support::random_case(random);
    program::Costs costs = support::random_costs(random, c.plan, support::Wires::free);
    std::vector<std::int64_t> const workspace(static_cast<std::size_t>(c.plan.rank_count()));
    auto const schedule = generate(c.plan, program::ProgramKind::train);
    return {lower(c.plan, model::Model{c.config}, schedule, {.device_workspace_bytes = workspace}),
            costs};
}

bool is_work(program::ProgramSet const& set, std::size_t rank, std::size_t instruction) {
    return program::computes_layers(set.programs[rank].instructions[instruction].operation);
}

/// By looking at every pair of spans.
double neighbours_by_pairs(program::ProgramSet const& set, program::Timeline const& timeline,
                           std::vector<int> const& nodes, std::size_t rank, std::size_t i) {
    program::Span const& span = timeline.ranks[rank][i];
    double shared = 0;
    for (std::size_t other = 0; other < set.programs.size(); ++other) {
        auto const& program = set.programs[other];
        for (std::size_t j = 0; j < program.instructions.size(); ++j)
            if (other != rank && nodes[other] == nodes[rank] &&
                program.queues[program.instructions[j].queue.index()].kind ==
                    program::QueueKind::compute)
                shared += std::max(0.0, std::min(span.end, timeline.ranks[other][j].end) -
                                            std::max(span.start, timeline.ranks[other][j].start));
    }
    return span.seconds() > 0 ? shared / span.seconds() : 0;
}

TEST(BusyNeighbours, AreThoseThatComputeAtTheSameTime) {
    for (std::uint64_t const seed : support::seeds("BusyNeighbours", 200)) {
        SCOPED_TRACE(seed);
        Case const c = random_case(seed);
        std::vector<int> nodes;
        for (std::size_t r = 0; r < c.set.programs.size(); ++r)
            nodes.push_back(static_cast<int>(r % 2));
        auto const timeline =
            simulate(c.set, program::seconds_alone(c.costs, c.set), c.costs.network).timeline;
        auto const found = busy_neighbours(c.set, timeline, nodes);
        for (std::size_t r = 0; r < c.set.programs.size(); ++r)
            for (std::size_t i = 0; i < found[r].size(); ++i)
                if (is_work(c.set, r, i)) {
                    ASSERT_NEAR(found[r][i], neighbours_by_pairs(c.set, timeline, nodes, r, i),
                                1e-9)
                        << r << ' ' << i;
                }
    }
}

TEST(SimulateContended, MakesEveryComputationAsLongAsItsNeighboursMakeIt) {
    for (std::uint64_t const seed : support::seeds("SimulateContended", 200)) {
        SCOPED_TRACE(seed);
        Case c = random_case(seed);
        std::fill(c.costs.nodes.begin(), c.costs.nodes.end(), 7);
        std::fill(c.costs.contention.begin(), c.costs.contention.end(), 0.1);
        Simulation const simulation = simulate_contended(c.set, c.costs);
        auto const alone = program::seconds_alone(c.costs, c.set);
        auto const neighbours = busy_neighbours(c.set, simulation.timeline, c.costs.nodes);
        double longest = 0;
        double off = 0;
        for (std::size_t r = 0; r < alone.size(); ++r) {
            double sum = 0;
            double wanted = 0;
            for (std::size_t i = 0; i < alone[r].size(); ++i)
                if (is_work(c.set, r, i)) {
                    double const seconds = simulation.timeline.ranks[r][i].seconds();
                    ASSERT_GE(seconds, alone[r][i] * (1 - 1e-9));
                    sum += seconds;
                    wanted += alone[r][i] * (1 + 0.1 * neighbours[r][i]);
                }
            off = std::max(off, std::abs(sum - wanted));
            longest = std::max(longest, wanted);
        }
        EXPECT_LT(off, 0.02 * longest); // no fixed point to the bit, but close to one
    }
}

TEST(SimulateContended, IsTheSimulationAloneWhereRanksShareNoNode) {
    for (std::uint64_t const seed : support::seeds("SimulateContended.Alone", 50)) {
        SCOPED_TRACE(seed);
        Case c = random_case(seed);
        std::fill(c.costs.contention.begin(), c.costs.contention.end(), 0.5);
        EXPECT_EQ(simulate_contended(c.set, c.costs).seconds,
                  simulate(c.set, program::seconds_alone(c.costs, c.set), c.costs.network).seconds);
    }
}

/// What the search takes for granted bounds what is predicted.
TEST(SimulateContended, IsNoLongerThanWithAllNeighboursBusy) {
    Case c = random_case(support::seeds("SimulateContended.Bound", 1).front());
    std::fill(c.costs.nodes.begin(), c.costs.nodes.end(), 0);
    std::fill(c.costs.contention.begin(), c.costs.contention.end(), 0.25);
    double const most =
        simulate(c.set, program::instruction_seconds(c.costs, c.set), c.costs.network).seconds;
    double const least =
        simulate(c.set, program::seconds_alone(c.costs, c.set), c.costs.network).seconds;
    double const predicted = simulate_contended(c.set, c.costs).seconds;
    EXPECT_LE(predicted, most * (1 + 1e-9));
    EXPECT_GE(predicted, least * (1 - 1e-9));
}

} // namespace
} // namespace evener::schedule
