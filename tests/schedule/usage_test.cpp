// SPDX-License-Identifier: Apache-2.0
#include "schedule/usage.hpp"

#include <gtest/gtest.h>

namespace evener::schedule {
namespace {

using core::InstructionId;
using core::QueueId;
using core::RankId;

program::Compute work(std::int64_t microbatch) {
    return {core::ChunkId{0}, {0, 1}, core::MicrobatchId{microbatch}, {microbatch, microbatch + 1}};
}

/// Rank 0: F0, F1, each sent to rank 1, then an update that waits for a reduction on both ranks.
/// Rank 1: what comes after each message, then the reduction.
program::ProgramSet two_ranks() {
    program::ProgramSet set;
    using program::QueueKind;
    program::Program sender{RankId{0}, {}, {}, {}, 0};
    sender.queues = {{QueueKind::compute, {}, {}},
                     {QueueKind::send, RankId{1}, {}},
                     {QueueKind::collective, {}, {}}};
    program::Program receiver{RankId{1}, {}, {}, {}, 0};
    receiver.queues = {{QueueKind::compute, {}, {}},
                       {QueueKind::receive, RankId{0}, {}},
                       {QueueKind::collective, {}, {}}};
    for (std::int64_t m = 0; m < 2; ++m) {
        program::Message message{
            {}, program::Direction::forward, core::ChunkId{0}, core::MicrobatchId{m}, {m, m + 1},
            8};
        InstructionId const own{2 * m};
        sender.instructions.push_back({program::Forward{work(m)}, QueueId{0}, {}, {}});
        message.peer = RankId{1};
        sender.instructions.push_back({program::Send{message}, QueueId{1}, {own}, {}});
        message.peer = RankId{0};
        receiver.instructions.push_back({program::Receive{message}, QueueId{1}, {}, {}});
        receiver.instructions.push_back({program::Forward{work(m)}, QueueId{0}, {own}, {}});
    }
    for (program::Program* const program : {&sender, &receiver}) {
        program->instructions.push_back(
            {program::ReduceGradients{core::BucketId{0}}, QueueId{2}, {InstructionId{3}}, {}});
        program->instructions.push_back(
            {program::UpdateParameters{core::BucketId{0}}, QueueId{0}, {InstructionId{4}}, {}});
    }
    sender.instructions[4].after = {InstructionId{2}};
    set.programs = {sender, receiver};
    return set;
}

/// Compute 2 s, messages 3 s on one wire, the reduction 4 s, the update 1 s.
program::Timeline times() {
    return {{{{0, 2}, {2, 5}, {2, 4}, {5, 8}, {4, 14}, {14, 15}},
             {{0, 5}, {5, 7}, {5, 8}, {8, 10}, {10, 14}, {14, 15}}}};
}

TEST(Usage, AddsUpWhatEachRankDid) {
    Usage const usage = usage_of(two_ranks(), times());
    EXPECT_EQ(usage.seconds, 15);
    EXPECT_EQ(usage.ranks[0].busy_seconds, 5);
    EXPECT_EQ(usage.ranks[1].busy_seconds, 5);
    EXPECT_EQ(usage.ranks[0].bubble_seconds, 10);
    EXPECT_EQ(usage.ranks[0].first_start, 0);
    EXPECT_EQ(usage.ranks[1].first_start, 5);
    EXPECT_EQ(usage.ranks[1].last_end, 15);
    EXPECT_EQ(usage.ranks[1].inner_bubble_seconds(), 5);
}

// Rank 0 waits from 4 on for the reduction, which is under way only from 10 on: before that it
// waits for rank 1. Rank 1 waits for messages from 2 to 5 and from 7 to 8, and for the reduction.
TEST(Usage, ExposesOnlyWhatIsUnderWay) {
    Usage const usage = usage_of(two_ranks(), times());
    EXPECT_EQ(usage.ranks[0].exposed_seconds, 4);
    EXPECT_EQ(usage.ranks[1].exposed_seconds, 3 + 1 + 4);
}

TEST(Usage, CountsCommunicationUnderComputation) {
    Usage const usage = usage_of(two_ranks(), times());
    EXPECT_EQ(usage.ranks[0].communication_seconds, 6 + 4);
    EXPECT_EQ(usage.ranks[0].overlapped_seconds, 2);
    EXPECT_EQ(usage.ranks[1].communication_seconds, 6 + 4);
    EXPECT_EQ(usage.ranks[1].overlapped_seconds, 2);
}

// The second message takes 7 s.
TEST(Usage, FollowsMessagesThatWaitForMessages) {
    program::ProgramSet set = two_ranks();
    set.programs[1].instructions[4].after = {InstructionId{2}};
    program::Timeline timeline = times();
    timeline.ranks[0][3] = {5, 12};
    timeline.ranks[1][2] = {5, 12};
    timeline.ranks[1][3] = {12, 13};
    timeline.ranks[1][4] = {12, 14};
    Usage const usage = usage_of(set, timeline);
    EXPECT_EQ(usage.ranks[1].exposed_seconds, 3 + 5 + 1);
    set.programs[1].instructions[3].after.clear(); // it starts when it likes: nothing it waits for
    EXPECT_EQ(usage_of(set, timeline).ranks[1].exposed_seconds, 3 + 1);
    // Without a computation between, the update waits for the reduction and that for the message.
    set.programs[1].instructions.erase(set.programs[1].instructions.begin() + 3);
    set.programs[1].instructions[4].after = {InstructionId{3}};
    timeline.ranks[1].erase(timeline.ranks[1].begin() + 3);
    EXPECT_EQ(usage_of(set, timeline).ranks[1].exposed_seconds, 3 + 5 + 2);
}

// Receives of a queue end in order: the second is held back by the first.
TEST(Usage, FollowsTheQueue) {
    program::ProgramSet set = two_ranks();
    set.programs[1].instructions[1].after.clear();
    program::Timeline timeline = times();
    timeline.ranks[1][1] = {0, 1};
    EXPECT_EQ(usage_of(set, timeline).ranks[1].exposed_seconds, 6 + 4);
}

TEST(Usage, KeepsUnderWayWithinTheInstruction) {
    program::Timeline timeline = times();
    timeline.ranks[1][0] = {3, 5};   // posted late
    timeline.ranks[0][1] = {2, 2.5}; // a clock that is off: over before the receive started
    auto const spans = under_way(two_ranks(), timeline, find_meetings(two_ranks()));
    EXPECT_EQ(spans[0][1], (program::Span{2.5, 2.5}));
    EXPECT_EQ(spans[1][0], (program::Span{3, 5}));
    EXPECT_EQ(spans[0][0], (program::Span{0, 2}));
    EXPECT_EQ(spans[0][4], (program::Span{10, 14}));
}

TEST(Usage, TakesThePeakOfMemory) {
    program::ProgramSet set = two_ranks();
    program::Buffer kept;
    kept.kind = program::BufferKind::kept;
    kept.bytes = 64;
    set.programs[0].buffers = {kept, kept};
    for (std::size_t m = 0; m < 2; ++m) {
        set.programs[0].instructions[2 * m].uses = {
            {core::BufferId{static_cast<std::int64_t>(m)}, program::Access::write, false}};
        set.programs[0].instructions[2 * m + 1].uses = {
            {core::BufferId{static_cast<std::int64_t>(m)}, program::Access::read, true}};
    }
    EXPECT_EQ(usage_of(set, times()).ranks[0].peak_bytes, 128);
    EXPECT_EQ(usage_of(set, times()).ranks[1].peak_bytes, 0);
    EXPECT_EQ(usage_of(set, times()).ranks[0].peak_pinned_bytes, 0);
    set.programs[0].buffers[1].memory = program::Memory::pinned; // apart from the device's
    EXPECT_EQ(usage_of(set, times()).ranks[0].peak_bytes, 64);
    EXPECT_EQ(usage_of(set, times()).ranks[0].peak_pinned_bytes, 64);
}

TEST(Usage, OfNothingIsNothing) {
    program::ProgramSet set;
    EXPECT_EQ(usage_of(set, {}).seconds, 0);
    set.programs = {{RankId{0}, {}, {}, {}, 0}};
    Usage const usage = usage_of(set, {{{}}});
    EXPECT_EQ(usage.ranks[0].busy_seconds, 0);
    EXPECT_EQ(usage.ranks[0].bubble_seconds, 0);
    EXPECT_EQ(usage.ranks[0].inner_bubble_seconds(), 0);
}

/// A fetch [0, 4), a computation [2, 6), an eviction [5, 9), and a computation [8, 9) that waits for
/// a second fetch [6, 8).
TEST(Usage, TellsCopiesFromMessages) {
    using program::QueueKind;
    program::Program program{RankId{0}, {}, {}, {}, 0};
    program.queues = {
        {QueueKind::compute, {}, {}}, {QueueKind::copy_in, {}, {}}, {QueueKind::copy_out, {}, {}}};
    program.instructions = {{program::Fetch{}, QueueId{1}, {}, {}},
                            {program::Forward{work(0)}, QueueId{0}, {}, {}},
                            {program::Evict{}, QueueId{2}, {}, {}},
                            {program::Fetch{}, QueueId{1}, {}, {}},
                            {program::Forward{work(1)}, QueueId{0}, {InstructionId{3}}, {}}};
    program::ProgramSet set;
    set.programs = {program};
    RankUsage const rank = usage_of(set, {{{{0, 4}, {2, 6}, {5, 9}, {6, 8}, {8, 9}}}}).ranks[0];
    EXPECT_EQ(rank.busy_seconds, 5);
    EXPECT_EQ(rank.communication_seconds, 0);
    EXPECT_EQ(rank.fetch_seconds, 6);
    EXPECT_EQ(rank.hidden_fetch_seconds, 2);
    EXPECT_EQ(rank.evict_seconds, 4);
    EXPECT_EQ(rank.hidden_evict_seconds, 2);
    EXPECT_EQ(rank.exposed_seconds, 2);
}

} // namespace
} // namespace evener::schedule
