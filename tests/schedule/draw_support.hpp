// SPDX-License-Identifier: Apache-2.0
#pragma once

// Programs and times to draw, without a simulator.

#include "program/timeline.hpp"
#include "schedule/generators.hpp"
#include "schedule/happens_before.hpp"
#include "schedule/lowering.hpp"
#include "support/random_plan.hpp"

#include <algorithm>

namespace evener::schedule {

/// One instruction after the other over all ranks, in an order that the programs allow, each of up
/// to 9 ms; some take no time.
inline program::Timeline one_after_the_other(program::ProgramSet const& set,
                                             support::Random& random) {
    HappensBefore const before{set, find_meetings(set)};
    std::vector<std::pair<std::uint32_t, Place>> places;
    program::Timeline timeline;
    for (program::Program const& program : set.programs) {
        timeline.ranks.emplace_back(program.instructions.size());
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            Place const place{program.rank, core::InstructionId{static_cast<std::int64_t>(i)}};
            places.emplace_back(before.possible_order(place), place);
        }
    }
    std::sort(places.begin(), places.end());
    double now = 0;
    for (auto const& [order, place] : places) {
        double const end = now + 1e-3 * static_cast<double>(random.integer(0, 9)) / 7;
        timeline.ranks[place.rank.index()][place.instruction.index()] = {now, end};
        now = end;
    }
    return timeline;
}

/// Every queue is busy all the time: each of its n instructions takes 1/n of a second.
inline program::Timeline always_busy(program::ProgramSet const& set) {
    program::Timeline timeline;
    for (program::Program const& program : set.programs) {
        std::vector<double> count(program.queues.size(), 0.0);
        for (program::Instruction const& instruction : program.instructions)
            ++count[instruction.queue.index()];
        std::vector<double> done(program.queues.size(), 0.0);
        auto& spans = timeline.ranks.emplace_back();
        for (program::Instruction const& instruction : program.instructions) {
            std::size_t const q = instruction.queue.index();
            spans.push_back({done[q] / count[q], (done[q] + 1) / count[q]});
            ++done[q];
        }
    }
    return timeline;
}

/// `groups` groups of one rank and one layer each.
inline program::ProgramSet chain(std::int64_t groups, std::int64_t microbatches) {
    support::RandomCase c;
    c.config.decoder_layers = groups / 2 - 1;
    for (std::int64_t g = 0; g < groups; ++g) {
        c.plan.groups.push_back({.ranks = {core::RankId{g}}, .shares = {1}, .shard_weights = {1}});
        c.plan.chunks.push_back({core::GroupId{g}, {g, g + 1}});
    }
    c.plan.batch_size = microbatches;
    c.plan.boundary_types = program::default_boundary_types(c.plan);
    return lower(c.plan, model::Model{c.config}, generate(c.plan, program::ProgramKind::train),
                 {program::ProgramKind::train,
                  std::vector<std::int64_t>(static_cast<std::size_t>(groups), 64), 2});
}

} // namespace evener::schedule
