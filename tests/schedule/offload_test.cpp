// SPDX-License-Identifier: Apache-2.0
#include "model/chunk_layout.hpp"
#include "schedule/dry_run.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "schedule/residences.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace evener::schedule {
namespace {

using program::BufferKind;
using program::Memory;
using program::ProgramKind;

std::vector<core::ChunkId> chunks(std::vector<std::int64_t> const& values) {
    std::vector<core::ChunkId> result;
    for (std::int64_t const value : values)
        result.push_back(value < 0 ? core::ChunkId{} : core::ChunkId{value});
    return result;
}

TEST(Residences, FetchTheNextRunsChunkWhenARunStarts) {
    EXPECT_EQ(residences_of(chunks({0, 1, 2, 2, 1, 0})), (std::vector<Residence>{
                                                             {core::ChunkId{0}, 0, 0, 0},
                                                             {core::ChunkId{1}, 0, 1, 4},
                                                             {core::ChunkId{2}, 1, 2, 3},
                                                             {core::ChunkId{0}, 4, 5, 5},
                                                         }));
}

TEST(Residences, GoOnWhereTheChunkIsThereStill) {
    EXPECT_EQ(residences_of(chunks({0, 1, -1, 0, 1, 2, 0})), (std::vector<Residence>{
                                                                 {core::ChunkId{0}, 0, 0, 3},
                                                                 {core::ChunkId{1}, 0, 1, 4},
                                                                 {core::ChunkId{2}, 4, 5, 5},
                                                                 {core::ChunkId{0}, 5, 6, 6},
                                                             }));
    EXPECT_TRUE(residences_of(chunks({-1, -1})).empty());
}

/// Two groups of one rank with a device memory each, four chunks per group in turns, breadth-first.
struct Ministages {
    model::ModelConfig config;
    program::Plan plan;

    Ministages() {
        config.decoder_layers = 8;
        for (std::int64_t g = 0; g < 2; ++g)
            plan.groups.push_back({.ranks = {core::RankId{g}},
                                   .shares = {1},
                                   .shard_weights = {1},
                                   .own_memory = {true}});
        for (std::int64_t c = 0; c < 8; ++c)
            plan.chunks.push_back(
                {core::GroupId{c % 2}, {c == 0 ? 0 : 2 * c + 1, c == 7 ? 18 : 2 * c + 3}});
        plan.batch_size = 6;
        plan.schedule = "breadth_first";
        plan.boundary_types = program::default_boundary_types(plan);
    }

    program::ProgramSet lower(ProgramKind kind = ProgramKind::train) const {
        EXPECT_EQ(program::plan_problems(plan, model::Model{config}), std::vector<std::string>{});
        return schedule::lower(plan, model::Model{config}, generate(plan, kind),
                               {.kind = kind, .device_workspace_bytes = {128, 128}});
    }
    void set(program::Offload const& offload) {
        for (program::Group& group : plan.groups)
            group.offload = offload;
    }
};

std::int64_t largest(program::ProgramSet const& set, BufferKind kind) {
    std::int64_t bytes = 0;
    for (program::Buffer const& buffer : set.programs[0].buffers)
        if (buffer.kind == kind && buffer.memory == Memory::device)
            bytes = std::max(bytes, core::round_up(buffer.bytes, 64));
    return bytes;
}

std::int64_t row(program::ProgramSet const& set, BufferKind kind, Memory memory = Memory::device) {
    return program::memory_table(set.programs[0], memory).bytes[static_cast<std::size_t>(kind)];
}

TEST(Offload, KeepsTheWeightsOfTwoChunksOnTheDevice) {
    Ministages ministages;
    std::int64_t const all = row(ministages.lower(), BufferKind::weights);
    ministages.set({.parameters = true});
    for (ProgramKind const kind : {ProgramKind::train, ProgramKind::evaluate}) {
        program::ProgramSet const set = ministages.lower(kind);
        EXPECT_TRUE(runs_to_end(set));
        EXPECT_LE(row(set, BufferKind::weights), 2 * largest(set, BufferKind::weights));
        EXPECT_EQ(row(set, BufferKind::weights, Memory::pinned), all);
    }
}

TEST(Offload, KeepsTheStateOfTwoBucketsOnTheDevice) {
    Ministages ministages;
    std::int64_t const all = row(ministages.lower(), BufferKind::shards);
    ministages.set({.optimizer = true});
    for (bool const interleaved : {false, true}) {
        ministages.plan.interleaved_updates = interleaved;
        program::ProgramSet const set = ministages.lower();
        EXPECT_TRUE(runs_to_end(set));
        EXPECT_LE(row(set, BufferKind::shards), 2 * largest(set, BufferKind::shards));
        EXPECT_LE(row(set, BufferKind::gradients), 2 * largest(set, BufferKind::gradients));
        EXPECT_EQ(row(set, BufferKind::shards, Memory::pinned), all);
        EXPECT_EQ(row(set, BufferKind::reduced, Memory::pinned) > 0, !interleaved);
    }
}

TEST(Offload, KeepsTwoMicrobatchesOfActivationsMoreThanAreInUse) {
    Ministages ministages;
    ministages.set({.activations = true});
    program::ProgramSet const set = ministages.lower();
    EXPECT_TRUE(runs_to_end(set));
    EXPECT_LE(row(set, BufferKind::kept), 3 * largest(set, BufferKind::kept));
    EXPECT_GT(row(set, BufferKind::kept, Memory::pinned), 0);
}

TEST(Offload, RecomputesFromTheChunksInputs) {
    Ministages ministages;
    std::int64_t const all = row(ministages.lower(), BufferKind::kept);
    for (program::Chunk& chunk : ministages.plan.chunks)
        chunk.recompute = true;
    program::ProgramSet const set = ministages.lower();
    EXPECT_EQ(row(set, BufferKind::kept), largest(set, BufferKind::kept));
    EXPECT_LT(row(set, BufferKind::kept) + row(set, BufferKind::inputs), all / 4);
    // The first chunk reads its tokens again.
    for (program::Buffer const& buffer : set.programs[0].buffers)
        EXPECT_FALSE(buffer.kind == BufferKind::inputs && buffer.chunk == core::ChunkId{0});
}

TEST(Offload, MeansNothingWhereTheDeviceHasNoMemoryOfItsOwn) {
    Ministages ministages;
    for (program::Group& group : ministages.plan.groups)
        group.own_memory = {false};
    program::ProgramSet const before = ministages.lower();
    ministages.set({true, true, true});
    program::ProgramSet const set = ministages.lower();
    for (std::size_t r = 0; r < 2; ++r)
        EXPECT_EQ(to_string(set.programs[r]), to_string(before.programs[r]));
}

} // namespace
} // namespace evener::schedule
