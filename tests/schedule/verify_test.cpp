// SPDX-License-Identifier: Apache-2.0
#include "schedule/happens_before.hpp"
#include "schedule/verify.hpp"
#include "support/sizes.hpp"

#include "program_edits.hpp"
#include "subject.hpp"
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <ctime>
#include <functional>
#include <map>
#include <set>

namespace evener::schedule {
namespace {

using core::InstructionId;
using core::QueueId;
using core::RankId;
using program::Direction;
using program::Program;
using program::ProgramKind;
using program::QueueKind;

/// Two ranks with two layers each, three microbatches, one receive buffer: everything that can wait
/// for something else does.
Subject two_ranks() {
    support::RandomCase tiny;
    tiny.config = {.vocabulary = 7,
                   .hidden_size = 6,
                   .decoder_layers = 1,
                   .heads = 2,
                   .kv_heads = 1,
                   .head_size = 4,
                   .ffn_size = 5,
                   .sequence_length = 3,
                   .tied_embeddings = true};
    for (std::int64_t r = 0; r < 2; ++r) {
        tiny.plan.groups.push_back({{RankId{r}}, {1}, {1}});
        tiny.plan.chunks.push_back({core::GroupId{r}, {2 * r, 2 * r + 2}});
    }
    tiny.plan.batch_size = 6;
    tiny.plan.microbatch_size = 2;
    tiny.plan.receive_buffers = 1;
    tiny.plan.boundary_types = program::default_boundary_types(tiny.plan);
    return Subject{tiny, ProgramKind::train, {64, 0}, generate(tiny.plan, ProgramKind::train)};
}

/// What the programs copy and compute again, counted over many plans.
struct LeverCount {
    std::map<std::string, int> programs; ///< by kind of copy: how many sets have one
    int recomputed = 0, interleaved = 0, mixed = 0;

    void add(Subject const& subject) {
        std::set<std::string> kinds;
        bool recomputes = false;
        for (Program const& program : subject.set.programs)
            for (program::Instruction const& instruction : program.instructions) {
                if (auto const* fetch = std::get_if<program::Fetch>(&instruction.operation))
                    kinds.insert(fmt::format("fetch {}", program::name_of(fetch->kind)));
                if (auto const* evict = std::get_if<program::Evict>(&instruction.operation))
                    kinds.insert(fmt::format("evict {}", program::name_of(evict->kind)));
                recomputes |= std::holds_alternative<program::Recompute>(instruction.operation);
            }
        for (std::string const& kind : kinds)
            ++programs[kind];
        recomputed += recomputes;
        interleaved += subject.plan.interleaved_updates;
        mixed += std::any_of(subject.plan.groups.begin(), subject.plan.groups.end(),
                             [](program::Group const& group) {
                                 auto const& own = group.own_memory;
                                 return group.offload.any() &&
                                        std::count(own.begin(), own.end(), true) > 0 &&
                                        std::count(own.begin(), own.end(), false) > 0;
                             });
    }

    void check() const {
        fmt::print("{} recompute, {} interleave updates, {} offload on a part of a group",
                   recomputed, interleaved, mixed);
        for (auto const& [kind, count] : programs)
            fmt::print(", {} {}", count, kind);
        fmt::print("\n");
        EXPECT_EQ(programs.size(), 11u); // 5 kinds are fetched, 6 evicted
        for (int const count : {recomputed, interleaved, mixed})
            EXPECT_GT(count, 0);
    }
};

TEST(Verify, AcceptsLoweredProgramsAndAllRunsOfThemAgree) {
    LeverCount levers;
    int unequal = 0, zero_shares = 0, dealt = 0, tied = 0, looped = 0, split = 0, ragged = 0;
    std::map<std::string, int> schedules;
    int v_placed = 0;
    auto const seeds = support::seeds("schedule/verify", 1000);
    for (std::uint64_t const seed : seeds) {
        support::Random random{seed};
        Subject const subject = random_subject(random);
        ASSERT_EQ(all_messages(subject.verify(subject.set)), "") << "EVENER_TEST_SEED=" << seed;
        ASSERT_TRUE(subject.same_result(subject.set, 20)) << "EVENER_TEST_SEED=" << seed;
        program::ProgramSet plain = subject.without_levers();
        plain.plan.interleaved_updates = subject.plan.interleaved_updates;
        ASSERT_TRUE(subject.same_result(plain, 1)) << "EVENER_TEST_SEED=" << seed;
        levers.add(subject);
        program::Plan const& plan = subject.plan;
        auto const any = [&](auto const& test) {
            return std::any_of(plan.groups.begin(), plan.groups.end(), test);
        };
        unequal += any([&](program::Group const& g) {
            return g.ranks.size() != plan.groups.front().ranks.size();
        });
        zero_shares += any([](program::Group const& g) {
            return std::find(g.shares.begin(), g.shares.end(), 0.0) != g.shares.end();
        });
        dealt += any([](program::Group const& g) {
            return g.dispatch == program::Dispatch::dealt && g.ranks.size() > 1;
        });
        tied += subject.model.config().tied_embeddings && plan.groups.size() > 1;
        ++schedules[subject.order.name];
        v_placed += plan.groups.size() > 1 && generator_problem(plan, "zb-v").empty();
        looped += plan.chunks.size() > plan.groups.size();
        split += plan.split_backward;
        ragged += plan.batch_size % plan.microbatch_size != 0;
    }
    fmt::print("{} plans: {} with groups of different sizes, {} with a zero share, {} dealt, {} "
               "tied across groups, {} with several chunks per group, {} split, {} with a smaller "
               "last microbatch\n",
               seeds.size(), unequal, zero_shares, dealt, tied, looped, split, ragged);
    for (int const count : {unequal, zero_shares, dealt, tied, looped, split, ragged})
        EXPECT_GT(count, 0);
    if (seeds.size() >= 100) { // rarer
        EXPECT_GT(v_placed, 0);
        levers.check();
    }
    for (auto const& [name, count] : schedules)
        fmt::print("{} {}, ", count, name);
    fmt::print("{} in a V\n", v_placed);
    if (seeds.size() < 50)
        return; // too few for each of them
    EXPECT_GT(schedules["edited"], 0);
    for (std::string_view const name : generator_names())
        EXPECT_GT(schedules[std::string{name}], 0) << name;
}

TEST(Verify, RejectsAProgramWithOneReceiveRemoved) {
    Subject const subject = two_ranks();
    ASSERT_EQ(all_messages(subject.verify(subject.set)), "");
    program::ProgramSet broken = subject.set;
    remove(broken.programs[1], find(broken.programs[1], is_a<program::Receive>, 1));
    auto const text = all_messages(subject.verify(broken));
    EXPECT_THAT(text,
                testing::HasSubstr(
                    "receive forward chunk 0 microbatch 1 from rank 0 on rank 1: is missing"));
    EXPECT_THAT(text, testing::HasSubstr("send forward chunk 0 microbatch 1 to rank 1 on rank 0"));
    EXPECT_TRUE(support::run_symbolic(broken, subject.model, 0).deadlock);
}

/// Drops all waits of one instruction; verify must name it and some run must go wrong.
void expect_needed_waits(InstructionTest const& test, std::size_t rank, int n) {
    Subject const subject = two_ranks();
    program::ProgramSet broken = subject.set;
    Program& program = broken.programs[rank];
    std::size_t const at = find(program, test, n);
    ASSERT_FALSE(program.instructions[at].after.empty()) << to_string(program);
    program.instructions[at].after.clear();
    auto const name = name_of(program.rank, program.instructions[at].operation) + " (instruction ";
    EXPECT_THAT(all_messages(subject.verify(broken)), testing::HasSubstr(name));
    EXPECT_FALSE(subject.same_result(broken, 40)) << name;
}

TEST(Verify, RejectsAComputationThatDoesNotWaitForItsMessageOrItsSendBuffer) {
    expect_needed_waits(is_a<program::Forward>, 1, 1);
    expect_needed_waits(is_a<program::Forward>, 0, 1);
}
TEST(Verify, RejectsASendThatDoesNotWaitForItsContent) {
    expect_needed_waits(is_a<program::Send>, 0, 0);
}
TEST(Verify, RejectsAReceiveThatDoesNotWaitForItsSlot) {
    expect_needed_waits(is_a<program::Receive>, 1, 1);
}
TEST(Verify, RejectsAReductionThatDoesNotWaitForTheLastGradient) {
    expect_needed_waits(is_a<program::ReduceGradients>, 0, 0);
}
TEST(Verify, RejectsANormThatDoesNotWaitForTheReduction) {
    expect_needed_waits(
        [](program::Instruction const& instruction) {
            return is_a<program::MeasureGradients>(instruction) && !instruction.after.empty();
        },
        0, 0);
}
TEST(Verify, RejectsAnUpdateThatDoesNotWaitForTheNorm) {
    expect_needed_waits(is_a<program::UpdateParameters>, 0, 0);
}

// Rank 0 sends before it receives and so does rank 1, on one thread of waits each: both sends wait
// for receives that stand behind the sends. With eager messages it would pass unseen.
TEST(HappensBefore, FindsTheRingOfADeadlock) {
    program::ProgramSet set;
    for (std::int64_t r = 0; r < 2; ++r) {
        RankId const peer{1 - r};
        auto const out = r == 0 ? Direction::forward : Direction::backward;
        auto const in = r == 0 ? Direction::backward : Direction::forward;
        Program program;
        program.rank = RankId{r};
        program.queues = {{QueueKind::send, peer, out}, {QueueKind::receive, peer, in}};
        program.instructions.push_back(
            {program::Send{{peer, out, core::ChunkId{0}, core::MicrobatchId{0}, {0, 1}, 4}},
             QueueId{0},
             {},
             {}});
        program.instructions.push_back(
            {program::Receive{{peer, in, core::ChunkId{0}, core::MicrobatchId{0}, {0, 1}, 4}},
             QueueId{1},
             {InstructionId{0}},
             {}});
        set.programs.push_back(std::move(program));
    }
    auto const ring = HappensBefore{set, find_meetings(set)}.cycle();
    EXPECT_EQ(ring.size(), 4u);
    for (std::int64_t r = 0; r < 2; ++r)
        for (std::int64_t i = 0; i < 2; ++i)
            EXPECT_EQ(std::count(ring.begin(), ring.end(), Place{RankId{r}, InstructionId{i}}), 1);

    set.programs[0].instructions[1].after.clear(); // rank 0 posts its receive at once: no ring
    HappensBefore const before{set, find_meetings(set)};
    EXPECT_TRUE(before.cycle().empty());
    EXPECT_FALSE(before.ends_before_start(RankId{0}, InstructionId{0}, InstructionId{1}));
    EXPECT_TRUE(before.ends_before_start(RankId{1}, InstructionId{0}, InstructionId{1}));
}

// Rank 0 posts its first gradient only when its second forward message has gone; rank 1 posts that
// message only when it has sent this gradient.
TEST(Verify, NamesTheInstructionsOfADeadlock) {
    Subject const subject = two_ranks();
    program::ProgramSet broken = subject.set;
    auto const add_wait = [](Program& program, int receive, int send) {
        auto& after = program.instructions[find(program, is_a<program::Receive>, receive)].after;
        after.push_back(
            InstructionId{static_cast<std::int64_t>(find(program, is_a<program::Send>, send))});
        std::sort(after.begin(), after.end());
    };
    add_wait(broken.programs[0], 0, 1);
    EXPECT_EQ(all_messages(subject.verify(broken)), ""); // one of the two does no harm
    add_wait(broken.programs[1], 1, 0);
    auto const text = all_messages(subject.verify(broken));
    for (std::string const name : {"receive backward chunk 0 microbatch 0 from rank 1 on rank 0",
                                   "send forward chunk 0 microbatch 1 to rank 1 on rank 0",
                                   "receive forward chunk 0 microbatch 1 from rank 0 on rank 1",
                                   "send backward chunk 0 microbatch 0 to rank 0 on rank 1"})
        EXPECT_THAT(text, testing::ContainsRegex(name + ".*deadlock: waits for"));
    EXPECT_TRUE(support::run_symbolic(broken, subject.model, 0).deadlock);
}

// A path through another rank orders two queues of one rank that share nothing else.
TEST(HappensBefore, LeadsThroughOtherRanks) {
    Subject const subject = two_ranks();
    HappensBefore const before{subject.set, find_meetings(subject.set)};
    Program const& program = subject.set.programs[0];
    auto const id = [](std::size_t i) { return InstructionId{static_cast<std::int64_t>(i)}; };
    std::size_t const send = find(program, is_a<program::Send>, 0);
    std::size_t const backward = find(program, is_a<program::Backward>, 0);
    // The gradient of microbatch 0 exists only because rank 1 received what this send sent.
    EXPECT_TRUE(before.ends_before_start(RankId{0}, id(send), id(backward)));
    EXPECT_FALSE(before.ends_before_start(RankId{0}, id(backward), id(send)));
    std::size_t const last = find(program, is_a<program::Send>, 2);
    EXPECT_FALSE(before.ends_before_start(RankId{0}, id(last), id(backward)));
}

TEST(Verify, WantsTheSamePersistentPlacesInTrainingAndValidation) {
    for (std::uint64_t const seed : support::seeds("schedule/persistent", 100)) {
        support::Random random{seed};
        support::RandomCase drawn = support::random_case(random);
        support::add_levers(random, drawn.plan);
        std::vector<std::int64_t> const none(static_cast<std::size_t>(drawn.plan.rank_count()));
        Subject const train{drawn, ProgramKind::train, none,
                            generate(drawn.plan, ProgramKind::train)};
        Subject evaluate{drawn, ProgramKind::evaluate, none,
                         generate(drawn.plan, ProgramKind::evaluate)};
        EXPECT_EQ(all_messages(verify_persistent(train.set, evaluate.set)), "");
        for (program::Buffer& buffer : evaluate.set.programs.back().buffers)
            buffer.offset += buffer.persistent ? 64 : 0;
        bool const keeps = !train.set.programs.back().buffers.empty() &&
                           train.set.programs.back().buffers.front().persistent;
        EXPECT_EQ(verify_persistent(train.set, evaluate.set).size(), keeps ? 1u : 0u);
    }
}

// Cost grows with ranks x instructions: every step that starts pays it once.
TEST(Verify, ManyRanksAndMicrobatchesTakeSeconds) {
    bool const full = support::size() == support::Size::full;
    std::int64_t const ranks = full ? 64 : 16;
    support::RandomCase large;
    large.config.decoder_layers = ranks;
    large.plan.batch_size = 4 * ranks;
    large.plan.split_backward = true;
    for (std::int64_t r = 0; r < ranks; ++r) {
        large.plan.groups.push_back({{RankId{r}}, {1}, {1}});
        large.plan.chunks.push_back(
            {core::GroupId{r}, {r == 0 ? 0 : 2 * r, r + 1 == ranks ? 2 * r + 4 : 2 * r + 2}});
    }
    large.plan.boundary_types = program::default_boundary_types(large.plan);
    Subject const subject{large, ProgramKind::train,
                          std::vector<std::int64_t>(static_cast<std::size_t>(ranks)),
                          generate(large.plan, ProgramKind::train)};
    std::clock_t const start = std::clock(); // processor time: other processes do not count
    EXPECT_EQ(all_messages(subject.verify(subject.set)), "");
    double const seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    fmt::print("{} ranks x {} microbatches: {:.2f} s\n", ranks, 4 * ranks, seconds);
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__)
    EXPECT_LT(seconds, 3);
#endif
}

TEST(Verify, RefusesOtherPlansModelsAndWorkspaces) {
    Subject const subject = two_ranks();
    program::ProgramSet other = subject.set;
    other.plan.batch_size = 8; // one microbatch more
    EXPECT_THAT(all_messages(subject.verify(other)),
                testing::HasSubstr("forward chunk 0 microbatch 3 on rank 0: is missing"));
    model::ModelConfig wider = subject.model.config();
    wider.ffn_size = 9;
    EXPECT_FALSE(verify(subject.set, model::Model{wider}, subject.workspaces).empty());
    EXPECT_THAT(all_messages(verify(subject.set, subject.model, {128, 0})),
                testing::HasSubstr("workspace buffer"));
    EXPECT_THAT(all_messages(verify(subject.set, subject.model, subject.workspaces, 1)),
                testing::HasSubstr("shards buffer"));
}

} // namespace
} // namespace evener::schedule
