// SPDX-License-Identifier: Apache-2.0
#pragma once

// A random plan with its model and lowered programs: what the tests of verify are about.

#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "schedule/verify.hpp"
#include "support/random_plan.hpp"
#include "support/random_schedule.hpp"
#include "support/symbolic_executor.hpp"

#include <utility>

namespace evener::schedule {

struct Subject {
    program::Plan plan;
    model::Model model;
    std::vector<std::int64_t> workspaces;
    program::Schedule order;
    program::ProgramSet set;

    Subject(support::RandomCase const& random_case, program::ProgramKind kind,
            std::vector<std::int64_t> device_workspaces, program::Schedule schedule)
        : plan{random_case.plan}, model{random_case.config},
          workspaces{std::move(device_workspaces)}, order{std::move(schedule)} {
        set = lower(plan, model, order, {.kind = kind, .device_workspace_bytes = workspaces});
    }

    /// The same work in the same order, without offload and recomputation, updates at the end.
    program::ProgramSet without_levers() const {
        program::Plan plain = plan;
        for (program::Group& group : plain.groups)
            group.offload = {};
        for (program::Chunk& chunk : plain.chunks)
            chunk.recompute = false;
        plain.interleaved_updates = false;
        return lower(plain, model, order, {.kind = set.kind, .device_workspace_bytes = workspaces});
    }

    std::vector<Problem> verify(program::ProgramSet const& programs) const {
        return schedule::verify(programs, model, workspaces);
    }

    /// Whether `runs` random runs of `other` all give what one run of the sound programs gives.
    bool same_result(program::ProgramSet const& other, int runs) const {
        support::SymbolicResult const right = support::run_symbolic(set, model, 0);
        for (int seed = 0; seed < runs; ++seed)
            if (support::run_symbolic(other, model, static_cast<std::uint64_t>(seed)) != right)
                return false;
        return true;
    }
};

inline Subject random_subject(support::Random& random) {
    support::Random levers{~support::Random{random}.bits()}; // a stream of its own
    support::RandomCase random_case =
        random.chance(50) ? support::random_looped_case(random) : support::random_case(random);
    std::vector<std::int64_t> workspaces;
    for (std::int64_t r = 0; r < random_case.plan.rank_count(); ++r)
        workspaces.push_back(64 * random.integer(0, 3));
    auto const kind =
        random.chance(80) ? program::ProgramKind::train : program::ProgramKind::evaluate;
    program::Schedule schedule = generate(random_case.plan, kind);
    if (kind == program::ProgramKind::train && random.chance(30)) {
        random_case.plan.receive_buffers = 0; // few may not do for any order
        schedule = support::edited(random, random_case.plan, std::move(schedule), 8);
    }
    if (levers.chance(60))
        support::add_levers(levers, random_case.plan);
    return Subject{random_case, kind, workspaces, std::move(schedule)};
}

} // namespace evener::schedule
