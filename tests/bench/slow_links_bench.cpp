// SPDX-License-Identifier: Apache-2.0

// Schedules over slow links between sites: makespans of eight ranks with unit times, simulated, and
// beside each cell the least that any schedule of that placement and memory could take (`>=`).
// A table for people, then one JSON line:
//   bin/slow_links_bench
#include "schedule/generators.hpp"
#include "schedule/greedy.hpp"
#include "schedule/sites.hpp"

#include <fmt/format.h>

using namespace evener;
using namespace evener::schedule;

int main() {
    for (std::int64_t const sites : {2, 4})
        for (double const memory : {1, 2}) {
            fmt::print("{} sites, {}x memory\n", sites, memory);
            for (auto const& [latency, occupancy] :
                 {std::pair{0., 0.}, {.25, .25}, {.25, 2.}, {2., .25}, {2., 2.}}) {
                Sites const s{.microbatches = memory > 1 ? 32 : 16,
                              .sites = sites,
                              .latency = latency,
                              .occupancy = occupancy,
                              .memory = 8 * memory};
                auto const generated = [&](std::string const& name) {
                    program::Plan const plan = sites_plan(s, name, name == "zb-v");
                    return evaluate(sites_graph(s, plan),
                                    generate(plan, program::ProgramKind::train))
                        .seconds;
                };
                auto const searched = [&](bool v) {
                    WorkGraph const graph = sites_graph(s, sites_plan(s, "greedy", v));
                    return evaluate(graph, greedy(graph)).seconds;
                };
                fmt::print("({},{}): 1f1b {} zb-h1 {} zb-v {} greedy {} greedy V {}\n", latency,
                           occupancy, generated("1f1b"), generated("zb-h1"), generated("zb-v"),
                           searched(false), searched(true));
            }
        }
}
