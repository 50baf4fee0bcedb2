// SPDX-License-Identifier: Apache-2.0

// What the search gains over 1F1B when two sites share a pipeline of eight ranks with unit times,
// with the memory of 1F1B's first rank on all ranks. All are simulations, the same everywhere.

#include "schedule/generators.hpp"
#include "schedule/greedy.hpp"
#include "schedule/limits.hpp"
#include "schedule/sites.hpp"

#include <gtest/gtest.h>

namespace evener::schedule {
namespace {

double searched(Sites const& sites) {
    double least = no_memory_limit;
    for (bool const v : {false, true}) {
        WorkGraph const graph = sites_graph(sites, sites_plan(sites, "greedy", v));
        program::Schedule const schedule = greedy(graph);
        expect_within_limits(graph, schedule);
        least = std::min(least, evaluate(graph, schedule).seconds);
    }
    return least;
}

double one_f_one_b(Sites const& sites) {
    program::Plan const plan = sites_plan(sites, "1f1b");
    return evaluate(sites_graph(sites, plan), generate(plan, program::ProgramKind::train)).seconds;
}

TEST(SlowLinks, CostMuchLessThanUnder1F1B) {
    struct Case {
        double latency;
        double occupancy;
        double most; ///< share of 1F1B's time
    };
    for (Case const& c : {Case{0.25, 2, 0.65}, Case{2, 0.25, 0.65}, Case{2, 2, 0.57}}) {
        SCOPED_TRACE(c.latency);
        SCOPED_TRACE(c.occupancy);
        Sites const sites{.latency = c.latency, .occupancy = c.occupancy, .memory = 8};
        EXPECT_LE(searched(sites), c.most * one_f_one_b(sites));
    }
}

} // namespace
} // namespace evener::schedule
