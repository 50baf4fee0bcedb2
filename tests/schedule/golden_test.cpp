// SPDX-License-Identifier: Apache-2.0
// Times and peaks of the schedules as an independent simulation of their papers' orders gave them:
// p equal ranks, unit times per rank and microbatch for forward, input gradient and weight gradient
// (a chunk of two takes half), free messages but for one slow boundary.
#include "schedule/generators.hpp"
#include "schedule/work_graph.hpp"

#include "textbook.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>

namespace evener::schedule {
namespace {

using core::RankId;
using program::Plan;
using textbook::chain;
using textbook::Placement;

struct Kind {
    char const* name;
    std::int64_t turns;
    Placement placement;
};
constexpr std::array kinds{
    Kind{"gpipe", 1, Placement::turns},
    Kind{"1f1b", 1, Placement::turns},
    Kind{"zb-h1", 1, Placement::turns},
    Kind{"zb-h2", 1, Placement::turns},
    Kind{"interleaved", 2, Placement::turns},
    Kind{"breadth_first", 2, Placement::turns},
    Kind{"zb-v", 2, Placement::v},
};

Plan plan_of(Kind const& kind, std::int64_t p, std::int64_t m) {
    return chain(p, m, kind.name, kind.turns, kind.placement);
}

/// Every message between ranks before `cut` and the others arrives `delay` later than it left.
program::Costs unit_costs(Plan const& plan, std::int64_t cut = 0, double delay = 0) {
    auto const chunk =
        static_cast<double>(plan.groups.size()) / static_cast<double>(plan.chunks.size());
    program::Costs costs = program::uniform_costs(plan, {chunk, chunk, chunk, 2 * chunk});
    std::int64_t const ranks = plan.rank_count();
    costs.network = program::uniform_network(ranks, {});
    for (std::int64_t a = 0; a < ranks; ++a)
        for (std::int64_t b = 0; b < ranks; ++b)
            if ((a < cut) != (b < cut)) {
                auto const wire = costs.network.wire_between(RankId{a}, RankId{b});
                costs.network.wires[static_cast<std::size_t>(wire)].latency_seconds = delay;
            }
    return costs;
}

Evaluation run(Plan const& plan, program::Costs const& costs) {
    return evaluate(make_work_graph(plan, costs, 0), generate(plan, program::ProgramKind::train));
}

struct Figures {
    double makespan, span, bubble, peak; ///< span: of the first rank; bubble: of the worst
};

void expect_figures(std::int64_t p, std::int64_t m, std::array<Figures, 7> const& expected) {
    for (std::size_t k = 0; k < kinds.size(); ++k) {
        SCOPED_TRACE(kinds[k].name);
        Plan const plan = plan_of(kinds[k], p, m);
        Evaluation const found = run(plan, unit_costs(plan));
        EXPECT_DOUBLE_EQ(found.seconds, expected[k].makespan);
        EXPECT_DOUBLE_EQ(found.span(RankId{0}), expected[k].span);
        EXPECT_DOUBLE_EQ(found.peak_bytes[0], expected[k].peak);
        double bubble = 0;
        for (std::int64_t r = 0; r < p; ++r)
            bubble = std::max(bubble, found.bubble(RankId{r}));
        EXPECT_NEAR(bubble, expected[k].bubble, 1e-12);
    }
}

TEST(Golden, TimesAndPeaksOfFourRanks) {
    expect_figures(4, 8,
                   {{{33, 33, 9, 8},
                     {33, 33, 9, 4},
                     {27, 27, 3, 4},
                     {27, 24, 0, 7},
                     {28.5, 28.5, 4.5, 5.5},
                     {28.5, 28.5, 4.5, 8},
                     {25.5, 24, 0, 4}}});
}

TEST(Golden, TimesAndPeaksOfEightRanks) {
    expect_figures(8, 16,
                   {{{69, 69, 21, 16},
                     {69, 69, 21, 8},
                     {55, 55, 7, 8},
                     {55, 48, 0, 15},
                     {58.5, 58.5, 10.5, 11.5},
                     {58.5, 58.5, 10.5, 16},
                     {51.5, 48, 0, 8}}});
}

// The closed forms of bubble and peak for every rank, other times than 1 and m >= 2p.
TEST(Golden, BubblesAndPeaksFollowTheirFormulas) {
    double const f = 2;
    double const b = 3;
    double const w = 1.5;
    for (std::int64_t p = 2; p <= 8; ++p) {
        std::int64_t const m = 3 * p;
        auto const last = static_cast<double>(p - 1);
        auto const evaluation = [&](char const* name, std::int64_t v) {
            Plan const plan = chain(p, m, name, v);
            auto const part = 1 / static_cast<double>(v);
            return evaluate(
                make_work_graph(
                    plan,
                    program::uniform_costs(plan, {f * part, b * part, w * part, (b + w) * part}),
                    0),
                generate(plan, program::ProgramKind::train));
        };
        for (std::int64_t v = 1; v <= 3; ++v) {
            double const bubble = last * (f + b + w) / static_cast<double>(v);
            EXPECT_NEAR(evaluation("breadth_first", v).bubble(RankId{0}), bubble, 1e-9);
            if (v > 1) {
                EXPECT_NEAR(evaluation("interleaved", v).bubble(RankId{0}), bubble, 1e-9);
            }
            for (std::int64_t r = 0; r < p; ++r) {
                auto const held = static_cast<double>(2 * (p - 1 - r) + (v - 1) * p + 1);
                EXPECT_NEAR(evaluation("interleaved", v).peak_bytes[static_cast<std::size_t>(r)],
                            std::min(held / static_cast<double>(v), static_cast<double>(m)), 1e-9);
            }
        }
        EXPECT_NEAR(evaluation("1f1b", 1).bubble(RankId{0}), last * (f + b + w), 1e-9);
        EXPECT_NEAR(evaluation("gpipe", 1).bubble(RankId{0}), last * (f + b + w), 1e-9);
        EXPECT_NEAR(evaluation("zb-h1", 1).bubble(RankId{0}), last * (f + b - w), 1e-9);
        EXPECT_NEAR(evaluation("zb-h2", 1).bubble(RankId{0}), last * (f + b - 2 * w), 1e-9);
        for (std::size_t r = 0; r < static_cast<std::size_t>(p); ++r) {
            auto const peak = [&](char const* name) { return evaluation(name, 1).peak_bytes[r]; };
            EXPECT_DOUBLE_EQ(peak("1f1b"), static_cast<double>(p) - static_cast<double>(r));
            EXPECT_DOUBLE_EQ(peak("zb-h1"), static_cast<double>(p));
            EXPECT_DOUBLE_EQ(peak("zb-h2"), static_cast<double>(2 * p - 1));
        }
        Plan const plan = chain(p, m, "zb-v", 2, Placement::v);
        for (double const peak : run(plan, unit_costs(plan)).peak_bytes)
            EXPECT_DOUBLE_EQ(peak, static_cast<double>(p));
    }
}

struct SlowTable {
    std::int64_t p, m, cut;
    std::array<std::array<double, 5>, 7> makespans; ///< [kind][delay]
};
constexpr std::array delays{0.0, 0.5, 1.0, 2.0, 4.0};
// clang-format off
constexpr std::array slow_tables{
    SlowTable{4, 8, 1, {{
        {33, 34, 35, 37, 41},
        {33, 36, 39, 45, 57},
        {27, 29, 32, 38, 50},
        {27, 27.5, 28, 30, 38},
        {28.5, 31.5, 35, 45, 65},
        {28.5, 29.5, 30.5, 34.5, 46.5},
        {25.5, 28, 32, 41.5, 61.5}}}},
    SlowTable{4, 8, 2, {{
        {33, 34, 35, 37, 41},
        {33, 37, 41, 49, 65},
        {27, 29, 33, 41, 57},
        {27, 27.5, 28, 31, 39},
        {28.5, 31.5, 35, 47, 71},
        {28.5, 29.5, 30.5, 34.5, 46.5},
        {25.5, 28, 31, 41, 61}}}},
    SlowTable{4, 8, 3, {{
        {33, 34, 35, 37, 41},
        {33, 37, 41, 49, 65},
        {27, 30, 34, 42, 58},
        {27, 27.5, 28, 34, 46},
        {28.5, 31.5, 36, 48, 72},
        {28.5, 29.5, 30.5, 34.5, 46.5},
        {25.5, 28.5, 32.5, 43.5, 67.5}}}},
    SlowTable{8, 16, 2, {{
        {69, 70, 71, 73, 77},
        {69, 75, 81, 93, 117},
        {55, 57, 63, 75, 99},
        {55, 55.5, 56, 57, 63},
        {58.5, 61.5, 65.5, 75.5, 103.5},
        {58.5, 59.5, 60.5, 62.5, 70.5},
        {51.5, 55, 61, 78, 113}}}},
    SlowTable{8, 16, 4, {{
        {69, 70, 71, 73, 77},
        {69, 76, 83, 97, 125},
        {55, 58, 65, 79, 107},
        {55, 55.5, 56, 61, 77},
        {58.5, 61.5, 65.5, 80, 112},
        {58.5, 59.5, 60.5, 62.5, 70.5},
        {51.5, 55.5, 62, 81, 121}}}},
    SlowTable{8, 16, 6, {{
        {69, 70, 71, 73, 77},
        {69, 77, 85, 101, 133},
        {55, 59, 67, 83, 115},
        {55, 55.5, 56, 65, 85},
        {58.5, 61.5, 67, 87, 127},
        {58.5, 59.5, 60.5, 62.5, 70.5},
        {51.5, 56, 62.5, 84.5, 128.5}}}},
};
// clang-format on

TEST(Golden, TimesWithOneSlowBoundary) {
    for (SlowTable const& table : slow_tables)
        for (std::size_t k = 0; k < kinds.size(); ++k)
            for (std::size_t d = 0; d < delays.size(); ++d) {
                Plan const plan = plan_of(kinds[k], table.p, table.m);
                EXPECT_DOUBLE_EQ(run(plan, unit_costs(plan, table.cut, delays[d])).seconds,
                                 table.makespans[k][d])
                    << kinds[k].name << ", " << table.p << " ranks, boundary before rank "
                    << table.cut << ", delay " << delays[d];
            }
}

// Seconds per microbatch of 1F1B with k more forwards of warm-up on all ranks in front of a
// boundary with the one-way delay d: max(T, (2 T + 2 d) / (2 + k)), T = 3. So k = ceil(2 d / T)
// hides it.
TEST(Golden, MoreMicrobatchesInFlightHideASlowBoundary) {
    int cases = 0;
    for (auto const& [p, cut] : {std::pair{2, 1}, {4, 1}, {4, 2}, {4, 3}, {8, 4}})
        for (int const delay : {1, 4, 7})
            for (std::int64_t k = 0; k <= 6; ++k, ++cases) {
                std::vector<std::int64_t> extra(static_cast<std::size_t>(p));
                std::fill(extra.begin(), extra.begin() + cut, k);
                auto const seconds = [&](std::int64_t m) {
                    Plan const plan = chain(p, m, "1f1b");
                    return evaluate(make_work_graph(plan, unit_costs(plan, cut, delay), 0),
                                    generate_one_f_one_b(plan, extra))
                        .seconds;
                };
                EXPECT_NEAR((seconds(184) - seconds(64)) / 120,
                            std::max(3.0, (6.0 + 2.0 * delay) / static_cast<double>(2 + k)), 1e-9)
                    << p << " ranks, boundary before rank " << cut << ", delay " << delay << ", "
                    << k << " more";
            }
    EXPECT_EQ(cases, 105);
}

} // namespace
} // namespace evener::schedule
