// SPDX-License-Identifier: Apache-2.0

// Schedules over slow links between sites: simulated makespans of eight ranks with unit times, and
// in parentheses the least that any schedule of the same placement and memory could take. Once with
// the memory of 1F1B's first rank on every rank (16 microbatches), once with twice as much (32). A
// table for people, then one JSON line:
//   bin/slow_links_bench
#include "schedule/exact.hpp"
#include "schedule/generators.hpp"
#include "schedule/greedy.hpp"
#include "schedule/improve.hpp"
#include "schedule/sites.hpp"
#include "schedule/work_bounds.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace {

using namespace evener;
using namespace evener::schedule;

struct Row {
    std::string name;
    bool two_chunks = false; ///< placed in a V
    enum class From : std::uint8_t { generator, greedy, searched } from = From::generator;
};

Row const rows[]{
    {"1f1b", false, Row::From::generator},  {"zb-h1", false, Row::From::generator},
    {"zb-v", true, Row::From::generator},   {"greedy", false, Row::From::greedy},
    {"greedy, V", true, Row::From::greedy}, {"beam", false, Row::From::searched},
};

constexpr std::array<std::pair<double, double>, 5> delays{
    {{0, 0}, {0.25, 0.25}, {0.25, 2}, {2, 0.25}, {2, 2}}};

struct Entry {
    double seconds = 0;
    double least = 0;
};

Entry run(Row const& row, Sites const& sites) {
    program::Plan const plan = sites_plan(sites, row.name, row.two_chunks);
    WorkGraph const graph = sites_graph(sites, plan);
    program::Schedule schedule = row.from == Row::From::generator
                                     ? generate(plan, program::ProgramKind::train)
                                     : greedy(graph);
    if (row.from == Row::From::searched)
        schedule = beam_search(graph, improve(graph, schedule), 200'000'000);
    return {evaluate(graph, schedule).seconds, lower_bound(graph)};
}

} // namespace

int main() {
    std::vector<std::string> json;
    for (std::int64_t const site_count : {2, 4})
        for (double const memory : {1, 2}) {
            fmt::print("{} sites, {}x memory: seconds (least)\n{:14}", site_count, memory,
                       "(lat,bw)/T_F");
            for (auto const& [latency, occupancy] : delays)
                fmt::print("{:>18}", fmt::format("{},{}", latency, occupancy));
            fmt::print("\n");
            for (Row const& row : rows) {
                fmt::print("{:14}", row.name);
                std::vector<std::string> cells;
                for (auto const& [latency, occupancy] : delays) {
                    Entry const cell = run(row, {.microbatches = memory > 1 ? 32 : 16,
                                                 .sites = site_count,
                                                 .latency = latency,
                                                 .occupancy = occupancy,
                                                 .memory = 8 * memory});
                    fmt::print("{:>18}", fmt::format("{} ({})", cell.seconds, cell.least));
                    cells.push_back(fmt::format("[{}, {}]", cell.seconds, cell.least));
                }
                fmt::print("\n");
                json.push_back(
                    fmt::format(R"({{"sites": {}, "memory": {}, "schedule": "{}", "cells": [{}]}})",
                                site_count, memory, row.name, fmt::join(cells, ", ")));
            }
            fmt::print("\n");
        }
    fmt::print("{{\"bench\": \"slow_links\", \"rows\": [{}]}}\n", fmt::join(json, ", "));
}
