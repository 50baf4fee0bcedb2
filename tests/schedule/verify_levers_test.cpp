// SPDX-License-Identifier: Apache-2.0
// What verify says of offload, recomputation and interleaved updates that are not right.
#include "program_edits.hpp"
#include "subject.hpp"
#include <fmt/format.h>
#include <gmock/gmock.h>

namespace evener::schedule {
namespace {

using core::InstructionId;
using core::RankId;
using program::Buffer;
using program::BufferKind;
using program::Evict;
using program::Fetch;
using program::Memory;
using program::Program;
using program::ProgramKind;
using program::ProgramSet;

/// Group 0: ranks 0 (a device with its own memory, offloads everything) and 1 (none), chunks 0, 2
/// and 4. Group 1: rank 2, chunks 1, 3 and 5, whose activations and optimizer leave and whose chunk 1
/// is computed again. Three microbatches in breadth-first order.
support::RandomCase levers_case() {
    support::RandomCase c;
    c.config = {.vocabulary = 7,
                .hidden_size = 6,
                .decoder_layers = 5,
                .heads = 2,
                .kv_heads = 1,
                .head_size = 4,
                .ffn_size = 5,
                .sequence_length = 3};
    c.plan.groups.push_back({.ranks = {RankId{0}, RankId{1}},
                             .shares = {1, 1},
                             .shard_weights = {1, 1},
                             .offload = {true, true, true},
                             .own_memory = {true, false}});
    c.plan.groups.push_back({.ranks = {RankId{2}},
                             .shares = {1},
                             .shard_weights = {1},
                             .offload = {false, true, true},
                             .own_memory = {true}});
    for (std::int64_t k = 0; k < 6; ++k)
        c.plan.chunks.push_back({core::GroupId{k % 2}, {2 * k, 2 * k + 2}, k == 1});
    c.plan.batch_size = 6;
    c.plan.microbatch_size = 2;
    c.plan.schedule = "breadth_first";
    c.plan.boundary_types = program::default_boundary_types(c.plan);
    return c;
}

Subject subject_of(support::RandomCase const& c, ProgramKind kind = ProgramKind::train) {
    return Subject{c, kind, {0, 64, 0}, generate(c.plan, kind)};
}

/// A copy that way of that kind, of the bucket or the chunk with that number.
template <class Op>
InstructionTest copy(BufferKind kind, std::int64_t owner, std::int64_t microbatch = -1) {
    return [=](program::Instruction const& instruction) {
        auto const* const op = std::get_if<Op>(&instruction.operation);
        return op && op->kind == kind && (op->bucket.value == owner || op->chunk.value == owner) &&
               (microbatch < 0 || op->microbatch.value == microbatch);
    };
}
template <class Op>
InstructionTest of_bucket(std::int64_t bucket) {
    return [=](program::Instruction const& instruction) {
        auto const* const op = std::get_if<Op>(&instruction.operation);
        return op && op->bucket.value == bucket;
    };
}
template <class Op>
InstructionTest of_chunk(std::int64_t chunk) {
    return [=](program::Instruction const& instruction) {
        auto const* const op = std::get_if<Op>(&instruction.operation);
        return op && op->chunk.value == chunk;
    };
}

enum class Runs { differ, agree };

/// What verify says of `broken`; some run must go wrong unless it only wastes something.
std::string rejected(Subject const& subject, ProgramSet const& broken, Runs runs = Runs::differ) {
    EXPECT_EQ(all_messages(subject.verify(subject.set)), "");
    EXPECT_EQ(subject.same_result(broken, 60), runs == Runs::agree);
    return all_messages(subject.verify(broken));
}

/// Breaks a sound set of programs in one place.
std::string breaking(std::size_t rank, std::function<void(Program&)> const& edit,
                     Runs runs = Runs::differ) {
    Subject const subject = subject_of(levers_case());
    ProgramSet broken = subject.set;
    edit(broken.programs[rank]);
    return rejected(subject, broken, runs);
}

std::function<void(Program&)> dropped(InstructionTest const& test, int n = 0) {
    return [=](Program& program) { remove(program, find(program, test, n)); };
}
std::function<void(Program&)> unordered(InstructionTest const& test, int n = 0) {
    return [=](Program& program) {
        auto& after = program.instructions[find(program, test, n)].after;
        EXPECT_FALSE(after.empty()) << to_string(program);
        after.clear();
    };
}

// --- what must be there

TEST(VerifyLevers, AcceptsTheProgramsAndTheyGiveWhatPlainOnesGive) {
    for (ProgramKind const kind : {ProgramKind::train, ProgramKind::evaluate}) {
        Subject const subject = subject_of(levers_case(), kind);
        EXPECT_EQ(all_messages(subject.verify(subject.set)), "");
        EXPECT_TRUE(subject.same_result(subject.without_levers(), 20));
    }
}

TEST(VerifyLevers, MissesEachCopyThatMayNotBeLeftOut) {
    using testing::HasSubstr;
    EXPECT_THAT(breaking(0, dropped(copy<Evict>(BufferKind::updated, 0))),
                HasSubstr("evict updated weights bucket 0 on rank 0: is missing"));
    EXPECT_THAT(breaking(0, dropped(copy<Evict>(BufferKind::shards, 0))),
                HasSubstr("evict shards bucket 0 on rank 0: is missing"));
    EXPECT_THAT(breaking(2, dropped(copy<Fetch>(BufferKind::shards, 3))),
                HasSubstr("fetch shards bucket 3 on rank 2: is missing"));
    EXPECT_THAT(breaking(0, dropped(copy<Evict>(BufferKind::reduced, 2))),
                HasSubstr("evict reduced gradients bucket 2 on rank 0: is missing"));
    EXPECT_THAT(breaking(2, dropped(copy<Evict>(BufferKind::gradients, 1))),
                HasSubstr("evict gradients bucket 1 on rank 2: is missing"));
    EXPECT_THAT(breaking(2, dropped(copy<Fetch>(BufferKind::reduced, 1))),
                HasSubstr("fetch reduced gradients bucket 1 on rank 2: is missing"));
    EXPECT_THAT(breaking(2, dropped(of_chunk<program::Recompute>(1), 1)),
                HasSubstr("recompute chunk 1 microbatch 1 on rank 2: is missing"));
}

// Activations may stay, but what leaves must come back.
TEST(VerifyLevers, WantsActivationsBothWaysOrNeither) {
    EXPECT_THAT(breaking(0, dropped(copy<Fetch>(BufferKind::kept, 0, 0))),
                testing::HasSubstr("fetch kept for backward chunk 0 microbatch 0 on rank 0: is "
                                   "missing"));
    EXPECT_THAT(breaking(2, dropped(copy<Evict>(BufferKind::inputs, 1))),
                testing::HasSubstr("evict chunk inputs chunk 1 microbatch 0 on rank 2: is "
                                   "missing"));
    Subject const subject = subject_of(levers_case());
    ProgramSet stays = subject.set; // what microbatch 0 kept of chunk 0 does not leave rank 0
    Program& program = stays.programs[0];
    remove(program, find(program, copy<Fetch>(BufferKind::kept, 0, 0)));
    remove(program, find(program, copy<Evict>(BufferKind::kept, 0, 0)));
    auto const with = [&](Memory memory, std::int64_t slot) {
        for (std::size_t b = 0; b < program.buffers.size(); ++b)
            if (Buffer const& x = program.buffers[b];
                x.kind == BufferKind::kept && x.chunk.value == 0 && x.microbatch.value == 0 &&
                x.memory == memory && x.slot == slot)
                return core::BufferId{static_cast<std::int64_t>(b)};
        return core::BufferId{};
    };
    core::BufferId const first = with(Memory::device, 0);
    core::BufferId const second = with(Memory::device, 1);
    for (program::Instruction& instruction : program.instructions)
        for (program::Use& use : instruction.uses)
            if (use.buffer == second)
                use.buffer = first;
    program.buffers[with(Memory::pinned, 0).index()].bytes = 0;
    program.buffers[second.index()].bytes = 0;
    program.buffers[first.index()].offset = core::round_up(program.arena_bytes, 64);
    program.arena_bytes = program.buffers[first.index()].offset +
                          core::round_up(program.buffers[first.index()].bytes, 64);
    EXPECT_EQ(all_messages(subject.verify(stays)), "");
}

TEST(VerifyLevers, RefusesCopiesThatThePlanDoesNotAskFor) {
    Subject const subject = subject_of(levers_case());
    ProgramSet other = subject.set;
    other.plan.groups[0].own_memory[0] = false;
    auto const text = all_messages(subject.verify(other));
    EXPECT_THAT(text, testing::ContainsRegex("fetch weights bucket 0 residence 0 on rank 0 "
                                             ".*: the plan asks for no such work of this rank"));
    EXPECT_THAT(text, testing::ContainsRegex("on rank 0 .*: pinned shards buffer .* is not asked "
                                             "for by the plan"));
    other = subject.set;
    other.plan.chunks[1].recompute = false;
    EXPECT_THAT(all_messages(subject.verify(other)),
                testing::ContainsRegex("recompute chunk 1 microbatch 0 on rank 2 .*: the plan asks "
                                       "for no such work of this rank"));
}

TEST(VerifyLevers, RefusesAFetchThatNothingReads) {
    auto const twice = [](Program& program) {
        program::Instruction again =
            program.instructions[find(program, copy<Fetch>(BufferKind::weights, 0))];
        core::BufferId& to = again.uses[1].buffer;
        Buffer buffer = program.buffers[to.index()];
        buffer.slot = 17;
        buffer.offset = program.arena_bytes;
        program.arena_bytes += core::round_up(buffer.bytes, 64);
        program.buffers.push_back(buffer);
        to = core::BufferId{std::ssize(program.buffers) - 1};
        again.uses[1].last = true;
        std::get<Fetch>(again.operation).slot = 17;
        // Right behind the first, so that the weights have not changed.
        std::size_t const at = find(program, copy<Fetch>(BufferKind::weights, 0));
        program.instructions.push_back(again);
        move_ahead(program, program.instructions.size() - 1, at + 1);
    };
    EXPECT_THAT(breaking(0, twice, Runs::agree),
                testing::ContainsRegex("fetch weights bucket 0 residence 17 on rank 0 .*: fetches "
                                       "what nothing uses"));
}

TEST(VerifyLevers, RefusesOtherBytesThanThoseOfTheBuffer) {
    auto const shorter = [](InstructionTest const& test) {
        return [=](Program& program) {
            std::visit(
                [](auto& op) {
                    if constexpr (requires { op.slot; })
                        op.bytes -= 4;
                },
                program.instructions[find(program, test)].operation);
        };
    };
    EXPECT_THAT(breaking(0, shorter(copy<Fetch>(BufferKind::weights, 2))),
                testing::ContainsRegex("fetch weights bucket 2 residence 0 on rank 0 .*: moves .* "
                                       "bytes \\(it must be "));
    EXPECT_THAT(breaking(2, shorter(copy<Evict>(BufferKind::inputs, 1))),
                testing::ContainsRegex("evict chunk inputs chunk 1 microbatch 0 on rank 2 .*: "
                                       "moves .* bytes"));
}

TEST(VerifyLevers, RefusesACopyInAnotherQueue) {
    auto const wrong = [](Program& program) {
        std::size_t const out = find(program, is_a<Evict>);
        program.instructions[find(program, is_a<Fetch>)].queue = program.instructions[out].queue;
    };
    EXPECT_THAT(breaking(0, wrong, Runs::agree), testing::HasSubstr("stands in a copy_out queue"));
}

TEST(VerifyLevers, RefusesCopiesOfWhatIsNotThere) {
    Subject const subject = subject_of(levers_case());
    auto const broken = [&](std::function<void(program::Copy&)> const& edit) {
        ProgramSet set = subject.set;
        Program& program = set.programs[0];
        edit(std::get<Fetch>(program.instructions[find(program, is_a<Fetch>)].operation));
        return all_messages(subject.verify(set)); // ends before anything is looked up
    };
    EXPECT_THAT(broken([](program::Copy& copy) { copy.bucket = core::BucketId{99}; }),
                testing::HasSubstr("must name a bucket that is there, and no chunk"));
    EXPECT_THAT(broken([](program::Copy& copy) { copy.chunk = core::ChunkId{0}; }),
                testing::HasSubstr("must name a bucket that is there, and no chunk"));
    EXPECT_THAT(broken([](program::Copy& copy) {
                    copy = {BufferKind::kept, {}, core::ChunkId{0}, core::MicrobatchId{3}, 0, 4};
                }),
                testing::HasSubstr("the plan has no such chunk or microbatch"));
    EXPECT_THAT(broken([](program::Copy& copy) { copy.kind = BufferKind::workspace; }),
                testing::HasSubstr("moves what never moves this way"));
    EXPECT_THAT(broken([](program::Copy& copy) { copy.slot = -1; }),
                testing::HasSubstr("has the residence -1"));
}

// --- what must wait for what

TEST(VerifyLevers, RefusesWeightsThatAreReadBeforeTheyArrived) {
    EXPECT_THAT(breaking(0, unordered(of_chunk<program::Forward>(2), 0)),
                testing::ContainsRegex("forward chunk 2 microbatch 0 on rank 0 .*: may start "
                                       "before fetch weights bucket 2 residence 0 on rank 0"));
}
TEST(VerifyLevers, RefusesAFetchOfWeightsBeforeTheyAreGathered) {
    EXPECT_THAT(breaking(0, unordered(copy<Fetch>(BufferKind::weights, 0))),
                testing::ContainsRegex("fetch weights bucket 0 residence 0 on rank 0 .*: may start "
                                       "before gather_parameters bucket 0 on rank 0"));
}
// In order, but the wrong one: what is fetched is of the step before.
TEST(VerifyLevers, RefusesAGatherThatComesBehindTheFetch) {
    auto const behind = [](Program& program) {
        std::size_t const gather = find(program, of_bucket<program::GatherParameters>(2));
        move_ahead(program, find(program, copy<Fetch>(BufferKind::weights, 2)), gather);
        program.instructions[gather + 1].after = {InstructionId{static_cast<std::int64_t>(gather)}};
    };
    EXPECT_THAT(breaking(0, behind),
                testing::ContainsRegex("fetch weights bucket 2 residence 0 on rank 0 .*: may start "
                                       "before gather_parameters bucket 2 on rank 0"));
}
TEST(VerifyLevers, RefusesWeightsThatTakeTheMemoryOfOthersInUse) {
    // Chunk 4 takes the place of chunk 0.
    EXPECT_THAT(breaking(0, unordered(copy<Fetch>(BufferKind::weights, 4))),
                testing::ContainsRegex("fetch weights bucket 4 residence 0 on rank 0 .*: may start "
                                       "before forward chunk 0 microbatch 2 .* share memory"));
}
TEST(VerifyLevers, RefusesAnUpdateBeforeItsShardsAreThere) {
    EXPECT_THAT(breaking(0, unordered(of_bucket<program::UpdateParameters>(2))),
                testing::ContainsRegex("update_parameters bucket 2 on rank 0 .*: may start before "
                                       "fetch shards bucket 2 on rank 0"));
}
TEST(VerifyLevers, RefusesCopiesHomeThatDoNotWaitForTheUpdate) {
    EXPECT_THAT(breaking(0, unordered(copy<Evict>(BufferKind::updated, 2))),
                testing::ContainsRegex("evict updated weights bucket 2 on rank 0 .*: may start "
                                       "before update_parameters bucket 2 on rank 0"));
    EXPECT_THAT(breaking(2, unordered(copy<Evict>(BufferKind::shards, 3))),
                testing::ContainsRegex("evict shards bucket 3 on rank 2 .*: may start before "
                                       "update_parameters bucket 3 on rank 2"));
}
TEST(VerifyLevers, RefusesAnEvictionOfGradientsThatAreNotWhole) {
    EXPECT_THAT(breaking(2, unordered(copy<Evict>(BufferKind::gradients, 3))),
                testing::ContainsRegex("evict gradients bucket 3 on rank 2 .*: may start before "
                                       ".* needs the whole gradient"));
}
TEST(VerifyLevers, RefusesActivationsThatAreFetchedBeforeTheyLeft) {
    EXPECT_THAT(breaking(0, unordered(copy<Fetch>(BufferKind::kept, 4))),
                testing::ContainsRegex("fetch kept for backward chunk 4 microbatch 1 on rank 0 "
                                       ".*: may start before evict kept for backward chunk 4 "
                                       "microbatch 1 on rank 0"));
    EXPECT_THAT(breaking(2, unordered(copy<Evict>(BufferKind::inputs, 1), 1)),
                testing::ContainsRegex("evict chunk inputs chunk 1 microbatch 1 on rank 2 .*: may "
                                       "start before forward chunk 1 microbatch 1 on rank 2"));
}

// Shards that go home ahead of their update carry the old step: right by contents, wrong by order.
TEST(VerifyLevers, RefusesShardsThatGoHomeAheadOfTheirUpdate) {
    auto const early = [](Program& program) {
        std::size_t const update = find(program, of_bucket<program::UpdateParameters>(3));
        std::size_t const evict = find(program, copy<Evict>(BufferKind::shards, 3));
        auto const fetch =
            static_cast<std::int64_t>(find(program, copy<Fetch>(BufferKind::shards, 3)));
        move_ahead(program, evict, update);
        program.instructions[update].after = {InstructionId{fetch}};
        program.instructions[update].uses[0].last = false; // the update ends the content now
        auto& after = program.instructions[update + 1].after;
        after.push_back(InstructionId{static_cast<std::int64_t>(update)});
        std::sort(after.begin(), after.end());
        for (program::Use& use : program.instructions[update + 1].uses)
            if (program.buffers[use.buffer.index()].kind == BufferKind::shards)
                use.last = true;
    };
    EXPECT_THAT(breaking(2, early),
                testing::ContainsRegex("evict shards bucket 3 on rank 2 .*: may start before "
                                       "update_parameters bucket 3 on rank 2 .* takes home what "
                                       "it updates"));
}

// --- where things lie

TEST(VerifyLevers, RefusesHomesThatOverlap) {
    auto const overlap = [](Program& program) {
        auto const home = [](BufferKind kind) {
            return [=](Buffer const& buffer) {
                return buffer.kind == kind && buffer.memory == Memory::pinned &&
                       buffer.bucket.value == 2;
            };
        };
        auto& buffers = program.buffers;
        auto const weights =
            std::find_if(buffers.begin(), buffers.end(), home(BufferKind::weights));
        auto const shards = std::find_if(buffers.begin(), buffers.end(), home(BufferKind::shards));
        shards->offset = weights->offset;
    };
    EXPECT_THAT(breaking(0, overlap),
                testing::ContainsRegex("pinned shards buffer .* of bucket 2 shares memory with "
                                       "pinned weights buffer"));
}

TEST(VerifyLevers, WantsRegionsOfTheRightSize) {
    auto const grown = [](Program& program) { program.pinned_bytes += 64; };
    EXPECT_THAT(breaking(0, grown, Runs::agree),
                testing::ContainsRegex("pinned memory is said to have .* bytes"));
    auto const cut = [](Program& program) { program.pinned_bytes -= 64; };
    EXPECT_THAT(breaking(0, cut), testing::ContainsRegex("lies at .*pinned memory has "));
    auto const everywhere = [](Program& program) { program.pinned_bytes = 64; };
    EXPECT_THAT(breaking(1, everywhere, Runs::agree),
                testing::HasSubstr("rank 1 has 64 bytes of pinned memory without a buffer in it"));
}

TEST(VerifyLevers, RefusesWeightsOfAnotherResidence) {
    auto const swapped = [](Program& program) {
        std::size_t const a = find(program, copy<Fetch>(BufferKind::weights, 0));
        std::size_t const b = find(program, copy<Fetch>(BufferKind::weights, 2));
        std::swap(program.instructions[a].uses, program.instructions[b].uses);
    };
    EXPECT_THAT(breaking(0, swapped),
                testing::ContainsRegex("fetch weights bucket 0 residence 0 on rank 0 .*: has no "
                                       "business with pinned weights buffer .* of bucket 2"));
}

// The same bytes, but kernels would read them over the bus.
TEST(VerifyLevers, RefusesComputationsOnPinnedMemory) {
    auto const at_home = [](Program& program) {
        program::Instruction& forward =
            program.instructions[find(program, of_chunk<program::Forward>(0), 1)];
        core::BufferId const home =
            program.instructions[find(program, copy<Fetch>(BufferKind::weights, 0))].uses[0].buffer;
        for (program::Use& use : forward.uses)
            if (program.buffers[use.buffer.index()].kind == BufferKind::weights)
                use.buffer = home;
    };
    EXPECT_THAT(breaking(0, at_home, Runs::agree),
                testing::ContainsRegex("forward chunk 0 microbatch 1 on rank 0 .*: has no business "
                                       "with pinned weights buffer .* of bucket 0"));
}

// --- updates

TEST(VerifyLevers, LetsUpdatesGoAheadOfTheNormOnlyWhereTheyAreInterleaved) {
    support::RandomCase c = levers_case();
    c.plan.interleaved_updates = true;
    Subject const subject = subject_of(c);
    EXPECT_EQ(all_messages(subject.verify(subject.set)), "");
    program::ProgramSet plain = subject.without_levers();
    plain.plan.interleaved_updates = true;
    EXPECT_TRUE(subject.same_result(plain, 20));
    ProgramSet clipped = subject.set;
    clipped.plan.interleaved_updates = false;
    EXPECT_THAT(all_messages(subject.verify(clipped)),
                testing::ContainsRegex("update_parameters bucket . on rank 2 .*: may start before "
                                       "reduce_scalars on rank 2 .* clips by the norm"));
}

TEST(VerifyLevers, RefusesAnInterleavedUpdateOfAGradientThatIsNotWhole) {
    support::RandomCase c = levers_case();
    c.plan.interleaved_updates = true;
    c.plan.groups[1].offload = {};
    Subject const subject = subject_of(c);
    ProgramSet broken = subject.set;
    Program& program = broken.programs[2];
    std::size_t const update = find(program, of_bucket<program::UpdateParameters>(3));
    std::size_t const backward = find(program, of_chunk<program::Backward>(3), 2);
    ASSERT_LT(backward, update);
    move_ahead(program, update, backward);
    EXPECT_THAT(rejected(subject, broken),
                testing::ContainsRegex(
                    "update_parameters bucket 3 on rank 2 .*: may start before "
                    "backward chunk 3 microbatch 0 on rank 2 .* needs the whole gradient"));
}

} // namespace
} // namespace evener::schedule
