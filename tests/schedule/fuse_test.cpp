// SPDX-License-Identifier: Apache-2.0
#include "program/schedule_text.hpp"
#include "schedule/fuse.hpp"
#include "schedule/generators.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include "textbook.hpp"
#include <gtest/gtest.h>

#include <algorithm>

namespace evener::schedule {
namespace {

using program::Plan;
using program::Schedule;
using program::WorkKind;
using textbook::chain;

std::string fused(Plan const& plan, program::Costs const& costs) {
    return print_schedule(fuse_adjacent(generate(plan, program::ProgramKind::train),
                                        make_work_graph(plan, costs, 0)));
}

TEST(Fuse, JoinsWhatNobodyWaitsFor) {
    Plan plan = chain(2, 2, "1f1b");
    plan.split_backward = true;
    // Rank 0 waits for both gradients of rank 1, nobody for those of rank 0.
    EXPECT_EQ(fused(plan, program::uniform_costs(plan, {1, 1, 1, 2})),
              "# schedule 1f1b\nF0.0,F0.1,BW0.0,BW0.1\n"
              "F1.0,B1.0,W1.0,F1.1,B1.1,W1.1\n");
    // The whole takes longer than the halves.
    EXPECT_EQ(fused(plan, program::uniform_costs(plan, {1, 1, 1, 2.1})),
              "# schedule 1f1b\nF0.0,F0.1,B0.0,W0.0,B0.1,W0.1\n"
              "F1.0,B1.0,W1.0,F1.1,B1.1,W1.1\n");
    // Rank 0 is busy when the first gradient arrives.
    program::Costs costs = program::uniform_costs(plan, {1, 1, 1, 1.9});
    costs.chunks[0][0].forward = 5;
    EXPECT_EQ(fused(plan, costs), "# schedule 1f1b\nF0.0,F0.1,BW0.0,BW0.1\n"
                                  "F1.0,BW1.0,F1.1,B1.1,W1.1\n");
}

/// Start of each piece of work; a fused one counts for its B.
double start_of(Schedule const& schedule, Evaluation const& run, std::size_t r,
                program::Work const& work) {
    for (std::size_t i = 0; i < schedule.ranks[r].size(); ++i) {
        program::Work const& other = schedule.ranks[r][i];
        bool const same = other.kind == work.kind || (other.kind == WorkKind::backward &&
                                                      work.kind == WorkKind::backward_input);
        if (same && other.chunk == work.chunk && other.microbatch == work.microbatch)
            return run.spans[r][i].start;
    }
    return 0; // the W of a fused one
}

TEST(Fuse, LetsNothingStartLater) {
    std::size_t joined = 0;
    std::size_t kept = 0;
    for (std::uint64_t const seed : support::seeds("schedule/fuse", 1000)) {
        support::Random random{seed};
        Plan plan = support::random_case(random).plan;
        plan.split_backward = true;
        program::Costs costs = program::uniform_costs(plan, {});
        for (auto& rank : costs.chunks)
            for (program::ChunkSeconds& chunk : rank) {
                auto const seconds = [&] { return static_cast<double>(random.integer(1, 9)); };
                chunk = {seconds(), seconds(), seconds(), 0};
                chunk.backward = chunk.backward_input + chunk.backward_weight -
                                 static_cast<double>(random.integer(-1, 1));
            }
        if (random.chance(50))
            costs.network = program::uniform_network(plan.rank_count(), {0.5, 0.25});
        WorkGraph const graph = make_work_graph(plan, costs, 2);
        Schedule const schedule = generate(plan, program::ProgramKind::train);
        Schedule const result = fuse_adjacent(schedule, graph);
        Evaluation const before = evaluate(graph, schedule);
        Evaluation const after = evaluate(graph, result);
        EXPECT_LE(after.seconds, before.seconds * (1 + 1e-9));
        for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
            EXPECT_LE(after.peak_bytes[r], before.peak_bytes[r]);
            joined += schedule.ranks[r].size() - result.ranks[r].size();
            for (program::Work const& work : schedule.ranks[r]) {
                kept += work.kind == WorkKind::backward_weight;
                EXPECT_LE(start_of(result, after, r, work),
                          start_of(schedule, before, r, work) + 1e-6)
                    << to_string(work) << " of rank " << r << ", EVENER_TEST_SEED=" << seed;
            }
        }
    }
    EXPECT_GT(10 * joined, kept);
    EXPECT_LT(joined, kept);
}

} // namespace
} // namespace evener::schedule
