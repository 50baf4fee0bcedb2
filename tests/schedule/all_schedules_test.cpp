// SPDX-License-Identifier: Apache-2.0
// Every schedule for every small number of groups, microbatches and chunks, as generated and edited:
// lowered and proven.
#include "program/schedule_text.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "schedule/verify.hpp"
#include "support/random_plan.hpp"
#include "support/random_schedule.hpp"
#include "support/sizes.hpp"

#include "textbook.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>

namespace evener::schedule {
namespace {

using program::ProgramKind;
using textbook::Placement;

struct Case {
    std::int64_t groups, microbatches, turns;
    Placement placement;
    std::string_view name;
};

std::vector<Case> all_cases() {
    std::vector<Case> cases;
    for (std::int64_t p = 1; p <= 6; ++p)
        for (std::int64_t m = 1; m <= 3 * p; ++m)
            for (std::int64_t v = 1; v <= 4; ++v)
                for (Placement const placement : {Placement::turns, Placement::v})
                    for (std::string_view const name : generator_names())
                        if ((v > 1 || placement == Placement::turns) &&
                            generator_problem(
                                textbook::chain(p, m, std::string{name}, v, placement), name)
                                .empty())
                            cases.push_back({p, m, v, placement, name});
    return cases;
}

std::string problems_of(program::ProgramSet const& set, model::Model const& model,
                        std::vector<std::int64_t> const& workspace) {
    std::string text;
    for (Problem const& problem : verify(set, model, workspace))
        text += problem.message + "\n";
    return text;
}

void check(Case const& c, support::Random& random) {
    SCOPED_TRACE(fmt::format("{}, {} groups, {} microbatches, {} chunks each{}", c.name, c.groups,
                             c.microbatches, c.turns,
                             c.placement == Placement::v ? " in a V" : ""));
    model::Model const model{{.vocabulary = 5,
                              .hidden_size = 4,
                              .decoder_layers = 11,
                              .heads = 1,
                              .kv_heads = 1,
                              .head_size = 4,
                              .ffn_size = 3,
                              .sequence_length = 2}};
    program::Plan plan =
        textbook::chain(c.groups, c.microbatches, std::string{c.name}, c.turns, c.placement);
    plan.chunks.back().layers.end = model.layer_count();
    plan.split_backward = random.chance(50);
    std::vector<std::int64_t> const workspace(static_cast<std::size_t>(c.groups));
    /// What lowering or verify says.
    auto const problems = [&](program::Schedule const& schedule, ProgramKind kind) {
        try {
            auto const set =
                lower(plan, model, schedule, {.kind = kind, .device_workspace_bytes = workspace});
            return problems_of(set, model, workspace);
        } catch (core::ConfigError const& error) {
            return std::string{error.what()};
        }
    };
    program::Schedule const train = generate(plan, ProgramKind::train);
    EXPECT_EQ(problems(train, ProgramKind::train), "") << print_schedule(train);
    EXPECT_EQ(problems(generate(plan, ProgramKind::evaluate), ProgramKind::evaluate), "");
    if (c.turns == 1 || (c.name != "gpipe" && c.name != "breadth_first")) {
        plan.receive_buffers = 1; // separate ones forward and backward
        EXPECT_EQ(problems(train, ProgramKind::train), "") << print_schedule(train);
        plan.receive_buffers = 0;
    }
    program::Schedule const changed = support::edited(random, plan, train, 10);
    EXPECT_EQ(problems(changed, ProgramKind::train), "") << print_schedule(changed);
}

TEST(AllSchedules, AreProvenForAllSmallNumbers) {
    std::vector<Case> const cases = all_cases();
    auto const wanted = static_cast<std::size_t>(support::count(static_cast<int>(cases.size())));
    support::Random random{20};
    for (std::size_t i = 0; i < wanted; ++i)
        if (check(wanted == cases.size() ? cases[i] : random.pick(cases), random); HasFailure())
            break;
    fmt::print("{} of {} cases\n", wanted, cases.size());
}

} // namespace
} // namespace evener::schedule
