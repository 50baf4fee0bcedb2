// SPDX-License-Identifier: Apache-2.0
#include "model/chunk_layout.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace evener::schedule {
namespace {

using program::BufferKind;
using program::ProgramKind;

program::ProgramSet lowered(support::RandomCase const& c, model::Model const& model,
                            ProgramKind kind, std::int64_t moments) {
    std::vector<std::int64_t> const workspace(static_cast<std::size_t>(c.plan.rank_count()), 128);
    return lower(c.plan, model, generate(c.plan, kind), {kind, workspace, moments});
}

std::int64_t bytes_of_kind(program::ProgramSet const& set, BufferKind kind) {
    std::int64_t bytes = 0;
    for (program::Program const& program : set.programs)
        for (program::Buffer const& buffer : program.buffers)
            if (buffer.kind == kind)
                bytes += buffer.bytes;
    return bytes;
}

// Master weights and two moments in float32: 12 bytes per parameter over all ranks, whatever the
// plan.
TEST(Lowering, KeepsTheStateOfEachParameterOnce) {
    for (std::uint64_t const seed : support::seeds("state", 300)) {
        support::Random random{seed};
        support::RandomCase const c = support::random_case(random);
        model::Model const model{c.config};
        EXPECT_EQ(bytes_of_kind(lowered(c, model, ProgramKind::train, 2), BufferKind::shards),
                  12 * model.parameter_elements());
        EXPECT_EQ(bytes_of_kind(lowered(c, model, ProgramKind::evaluate, 0), BufferKind::shards),
                  4 * model.parameter_elements());
    }
}

TEST(Lowering, GivesATableWhoseRowsAddUpToTheArena) {
    for (std::uint64_t const seed : support::seeds("table", 300)) {
        support::Random random{seed};
        support::RandomCase const c = support::random_case(random);
        for (program::Program const& program :
             lowered(c, model::Model{c.config}, ProgramKind::train, 2).programs) {
            program::MemoryTable const table = program::memory_table(program);
            EXPECT_EQ(
                std::accumulate(std::begin(table.bytes), std::end(table.bytes), std::int64_t{0}),
                table.total_bytes);
        }
    }
}

/// Four stages of one rank, 1F1B.
support::RandomCase chain(std::int64_t microbatches) {
    support::RandomCase c;
    c.config.decoder_layers = 1;
    for (std::int64_t g = 0; g < 4; ++g) {
        c.plan.groups.push_back({.ranks = {core::RankId{g}}, .shares = {1}, .shard_weights = {1}});
        c.plan.chunks.push_back({core::GroupId{g}, {g, g + 1}});
    }
    c.plan.batch_size = microbatches;
    c.plan.boundary_types = program::default_boundary_types(c.plan);
    return c;
}

TEST(Lowering, KeepsNoMoreMicrobatchesThanTheScheduleHolds) {
    support::RandomCase const c = chain(16);
    model::Model const model{c.config};
    program::ProgramSet const set = lowered(c, model, ProgramKind::train, 2);
    std::int64_t const one = model::chunk_layout(model, {1, 2}, 1, core::DType::float32).kept_bytes;
    EXPECT_EQ(program::memory_table(set.programs[1]).bytes[static_cast<int>(BufferKind::kept)],
              3 * one); // rank 1 of 4 holds min(p - r, m) = 3
}

TEST(Lowering, NeedsOneReceiveBufferAndTakesOneMore) {
    for (program::Program const& program :
         lowered(chain(8), model::Model{chain(8).config}, ProgramKind::train, 2).programs)
        for (program::Buffer const& buffer : program.buffers)
            if (buffer.kind == BufferKind::received) {
                EXPECT_LT(buffer.slot, 2);
            }
}

TEST(DryRun, NamesTheLinkThatIsShortOfBuffers) {
    // Rank 1 wants microbatch 1 first, but rank 0 sends microbatch 0 first: one buffer blocks.
    support::RandomCase c = chain(2);
    c.plan.groups.resize(2);
    c.plan.chunks = {{core::GroupId{0}, {0, 2}}, {core::GroupId{1}, {2, 4}}};
    c.plan.boundary_types = program::default_boundary_types(c.plan);
    model::Model const model{c.config};
    program::Schedule schedule = generate(c.plan, ProgramKind::evaluate);
    std::swap(schedule.ranks[1][0], schedule.ranks[1][1]);
    c.plan.receive_buffers = 1;
    EXPECT_THROW(lower(c.plan, model, schedule, {ProgramKind::evaluate, {0, 0}, 2}),
                 core::ConfigError);
    c.plan.receive_buffers = 0;
    program::ProgramSet const set =
        lower(c.plan, model, schedule, {ProgramKind::evaluate, {0, 0}, 2});
    EXPECT_TRUE(links_short_of_buffers(set).empty());
}

} // namespace
} // namespace evener::schedule
