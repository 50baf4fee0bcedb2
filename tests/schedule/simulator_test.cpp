// SPDX-License-Identifier: Apache-2.0
#include "model/chunk_layout.hpp"
#include "schedule/lowering.hpp"
#include "schedule/simulator.hpp"
#include "schedule/subject.hpp"
#include "schedule/usage.hpp"
#include "schedule/verify.hpp"
#include "schedule/work_graph.hpp"
#include "support/random_costs.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace evener::schedule {
namespace {

using core::ChunkId;
using core::MicrobatchId;
using core::RankId;
using program::ProgramKind;
using program::Span;
using program::WorkKind;

Simulation run(program::ProgramSet const& set, program::Costs const& costs) {
    return simulate(set, program::instruction_seconds(costs, set), costs.network);
}

/// p groups of one rank, m microbatches of one sequence, one layer pair each.
support::RandomCase chain(std::int64_t p, std::int64_t m) {
    support::RandomCase c;
    c.config.decoder_layers = p;
    for (std::int64_t g = 0; g < p; ++g) {
        c.plan.groups.push_back({.ranks = {RankId{g}}, .shares = {1}, .shard_weights = {1}});
        c.plan.chunks.push_back({core::GroupId{g}, {2 * g, g + 1 < p ? 2 * g + 2 : 2 * p + 2}});
    }
    c.plan.batch_size = m;
    c.plan.boundary_types = program::default_boundary_types(c.plan);
    return c;
}

program::ProgramSet lowered(support::RandomCase const& c, program::Schedule const& schedule,
                            program::Costs const* costs = nullptr) {
    std::vector<std::int64_t> const workspace(static_cast<std::size_t>(c.plan.rank_count()));
    return lower(c.plan, model::Model{c.config}, schedule,
                 {.device_workspace_bytes = workspace, .costs = costs});
}

/// Span of the first instruction of kind Op on a rank, of a microbatch where it has one.
template <class Op>
Span span_of(program::ProgramSet const& set, Simulation const& simulation, std::size_t rank,
             std::int64_t microbatch = -1) {
    auto const& list = set.programs[rank].instructions;
    for (std::size_t i = 0; i < list.size(); ++i)
        if (auto const* const op = std::get_if<Op>(&list[i].operation)) {
            if constexpr (requires { op->microbatch; })
                if (microbatch >= 0 && op->microbatch.value != microbatch)
                    continue;
            return simulation.timeline.ranks[rank][i];
        }
    ADD_FAILURE() << "no such instruction";
    return {};
}

// Forwards of 1 s; messages occupy the wire for 3 s and arrive 0.5 s later. The second is ready at
// 2 s (a send buffer of its own), leaves when the first has left and arrives at 7.5 s.
TEST(Simulator, LetsMessagesQueueForTheirWire) {
    support::RandomCase c = chain(2, 2);
    c.plan.schedule = "gpipe";
    program::Costs costs = program::uniform_costs(c.plan, {1, 1, 1, 2});
    double const bytes =
        static_cast<double>(model::boundary_bytes(c.config, 1, core::DType::float32));
    costs.network = program::uniform_network(2, {0.5, 3 / bytes});
    auto const set = lowered(c, generate(c.plan, ProgramKind::train), &costs);
    Simulation const result = run(set, costs);
    EXPECT_EQ(span_of<program::Send>(set, result, 0, 0), (Span{1, 4}));
    EXPECT_EQ(span_of<program::Send>(set, result, 0, 1), (Span{4, 7}));
    EXPECT_DOUBLE_EQ(span_of<program::Receive>(set, result, 1, 0).end, 4.5);
    EXPECT_DOUBLE_EQ(span_of<program::Receive>(set, result, 1, 1).end, 7.5);
    EXPECT_EQ(span_of<program::Forward>(set, result, 1, 1), (Span{7.5, 8.5}));
    EXPECT_DOUBLE_EQ(result.wire_busy_seconds[0], 6);
}

// Rank 1 is slow and has one receive buffer: the third message of rank 0 finds the first in it and
// the second in the send buffer.
TEST(Simulator, HoldsBackASenderWhoseReceiverHasNoBuffer) {
    support::RandomCase c = chain(2, 3);
    c.plan.schedule = "gpipe";
    c.plan.receive_buffers = 1;
    program::Costs costs = program::uniform_costs(c.plan, {1, 1, 1, 2});
    costs.chunks[1][1].forward = 10;
    auto const set = lowered(c, generate(c.plan, ProgramKind::train), &costs);
    Simulation const result = run(set, costs);
    EXPECT_EQ(span_of<program::Forward>(set, result, 0, 1), (Span{1, 2}));
    EXPECT_EQ(span_of<program::Send>(set, result, 0, 1), (Span{2, 11}));
    EXPECT_EQ(span_of<program::Forward>(set, result, 0, 2), (Span{11, 12}));
}

// Two ranks share a bucket; each owns half. Rank 0 sends its part of the gradient for rank 1's
// shard over its wire and the other way round.
TEST(Simulator, ExchangesThePartsOfACollective) {
    support::RandomCase c = chain(1, 1);
    c.plan.groups[0] = {.ranks = {RankId{0}, RankId{1}}, .shares = {1, 1}, .shard_weights = {1, 1}};
    c.plan.microbatch_size = c.plan.batch_size = 2;
    program::Costs costs = program::uniform_costs(c.plan, {1, 1, 1, 2});
    costs.chunks[1][0].forward = 4; // rank 1 is 3 s later
    costs.network = program::uniform_network(2, {0.25, 1e-3});
    auto const set = lowered(c, generate(c.plan, ProgramKind::train), &costs);
    Simulation const result = run(set, costs);
    auto const& bucket = set.buckets.front();
    double const to_rank_1 = 4e-3 * static_cast<double>(bucket.shard_of(RankId{1}).size());
    double const to_rank_0 = 4e-3 * static_cast<double>(bucket.shard_of(RankId{0}).size());
    double const gathered = span_of<program::GatherParameters>(set, result, 1).end;
    EXPECT_DOUBLE_EQ(gathered, 0.25 + std::max(to_rank_0, to_rank_1)); // 4 bytes each way, too
    Span const reduction = span_of<program::ReduceGradients>(set, result, 0);
    double const both = span_of<program::Backward>(set, result, 1).end;
    EXPECT_DOUBLE_EQ(both - gathered, 6);
    EXPECT_DOUBLE_EQ(reduction.start, span_of<program::Backward>(set, result, 0).end);
    EXPECT_DOUBLE_EQ(reduction.end, both + std::max(to_rank_1, to_rank_0 + 0.25));
    // Scalars: to rank 0 and back, when the last of both is there.
    EXPECT_DOUBLE_EQ(span_of<program::ReduceScalars>(set, result, 1).end,
                     std::max(span_of<program::ReduceScalars>(set, result, 0).start,
                              span_of<program::ReduceScalars>(set, result, 1).start + 0.25) +
                         0.25);
}

/// When each piece of work of the schedule ran, by the simulated programs.
std::vector<std::vector<Span>> work_spans(program::ProgramSet const& set,
                                          Simulation const& simulation) {
    std::vector<std::vector<Span>> spans(set.programs.size());
    for (std::size_t r = 0; r < spans.size(); ++r)
        for (std::size_t i = 0; i < set.programs[r].instructions.size(); ++i) {
            auto const& op = set.programs[r].instructions[i].operation;
            if (std::holds_alternative<program::Forward>(op) ||
                std::holds_alternative<program::Backward>(op) ||
                std::holds_alternative<program::BackwardInput>(op) ||
                std::holds_alternative<program::BackwardWeight>(op))
                spans[r].push_back(simulation.timeline.ranks[r][i]);
        }
    return spans;
}

void expect_near(std::vector<std::vector<Span>> const& a, std::vector<std::vector<Span>> const& b) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t r = 0; r < a.size(); ++r) {
        ASSERT_EQ(a[r].size(), b[r].size());
        for (std::size_t i = 0; i < a[r].size(); ++i) {
            EXPECT_NEAR(a[r][i].start, b[r][i].start, 1e-9);
            EXPECT_NEAR(a[r][i].end, b[r][i].end, 1e-9);
        }
    }
}

// With buffers enough and messages that take no time to leave, programs and work graph are two
// models of the same run.
TEST(Simulator, AgreesWithTheWorkGraphWhereBuffersSuffice) {
    std::int64_t compared = 0;
    for (std::uint64_t const seed : support::seeds("agrees", 300)) {
        support::Random random{seed};
        support::RandomCase c = support::random_looped_case(random);
        c.config.tied_embeddings = false; // no collective in front of the work
        c.plan.receive_buffers = 1000;
        for (program::Group& group : c.plan.groups)
            group.compute = core::DType::float32;
        auto costs = support::random_costs(
            random, c.plan, random.chance(50) ? support::Wires::free : support::Wires::latency);
        if (std::any_of(c.plan.groups.begin(), c.plan.groups.end(),
                        [](auto const& group) { return group.ranks.size() > 1; })) {
            if (c.plan.chunks.size() > c.plan.groups.size())
                continue; // gradients may wait for the memory of others that are being reduced
            costs.network = program::free_network(c.plan.rank_count());
        }
        ++compared;
        auto const schedule = generate(c.plan, ProgramKind::train);
        auto const set = lowered(c, schedule);
        expect_near(
            work_spans(set, run(set, costs)),
            evaluate(make_work_graph(c.plan, model::Model{c.config}, costs), schedule).spans);
    }
    EXPECT_GT(compared, 0);
}

/// Every copy costs by its direction and bytes, and the computations of a rank add up to its work.
TEST(InstructionSeconds, AddUpToTheWorkWhereItIsComputedTwice) {
    std::int64_t copies = 0;
    std::int64_t recomputed = 0;
    for (std::uint64_t const seed : support::seeds("levers", 300)) {
        support::Random random{seed};
        support::RandomCase c =
            random.chance(50) ? support::random_looped_case(random) : support::random_case(random);
        support::add_levers(random, c.plan);
        auto costs = support::random_costs(random, c.plan, support::Wires::free);
        for (std::size_t r = 0; r < costs.copies.size(); ++r)
            costs.copies[r] = {{0.5, 1.0 + static_cast<double>(r)}, {0.25, 3.0}};
        auto const schedule = generate(c.plan, ProgramKind::train);
        auto const set = lowered(c, schedule);
        auto const seconds = program::instruction_seconds(costs, set);
        auto const graph = make_work_graph(c.plan, model::Model{c.config}, costs);
        for (std::size_t r = 0; r < set.programs.size(); ++r) {
            double expected = 0;
            for (program::Work const& work : schedule.ranks[r])
                if (auto const cell = graph.find(set.programs[r].rank, work.chunk, work.microbatch);
                    cell >= 0)
                    expected += graph.cells[static_cast<std::size_t>(cell)].seconds.of(work.kind);
            double sum = 0;
            auto const& list = set.programs[r].instructions;
            for (std::size_t i = 0; i < list.size(); ++i) {
                recomputed += std::holds_alternative<program::Recompute>(list[i].operation);
                if (auto const* const fetch = std::get_if<program::Fetch>(&list[i].operation)) {
                    ++copies;
                    EXPECT_DOUBLE_EQ(seconds[r][i], 0.5 + static_cast<double>(fetch->bytes) *
                                                              (1.0 + static_cast<double>(r)));
                } else if (auto const* const evict =
                               std::get_if<program::Evict>(&list[i].operation)) {
                    EXPECT_DOUBLE_EQ(seconds[r][i], 0.25 + static_cast<double>(evict->bytes) * 3);
                } else {
                    sum += seconds[r][i];
                }
            }
            EXPECT_NEAR(sum, expected, 1e-9 * (1 + expected)) << "seed " << seed << " rank " << r;
        }
    }
    EXPECT_GT(copies, 0);
    EXPECT_GT(recomputed, 0);
}

// The buffers that lowering chooses by the costs make the step no longer than unlimited ones would.
TEST(Lowering, ChoosesBuffersThatDoNotStall) {
    std::int64_t several_send_buffers = 0;
    for (std::uint64_t const seed : support::seeds("no stall", 200)) {
        support::Random random{seed};
        support::RandomCase c = chain(random.integer(2, 5), random.integer(1, 8));
        c.plan.split_backward = random.chance(50);
        auto const costs = support::random_costs(random, c.plan, support::Wires::bandwidth);
        c.plan.schedule = random.chance(50) ? "breadth_first" : "1f1b";
        auto const schedule = generate(c.plan, ProgramKind::train);
        auto const set = lowered(c, schedule, &costs);
        double last = 0;
        for (auto const& spans : work_spans(set, run(set, costs)))
            for (Span const& span : spans)
                last = std::max(last, span.end);
        EXPECT_NEAR(
            last,
            evaluate(make_work_graph(c.plan, model::Model{c.config}, costs), schedule).seconds,
            1e-5 * last);
        for (program::Program const& program : set.programs)
            for (program::Buffer const& buffer : program.buffers)
                several_send_buffers +=
                    buffer.kind == program::BufferKind::sending && buffer.slot > 0;
        EXPECT_TRUE(
            verify(set, model::Model{c.config}, std::vector<std::int64_t>(set.programs.size()))
                .empty());
    }
    EXPECT_GT(several_send_buffers, 0);
}

// Each step of the critical path starts when the one before lets it: nothing between them.
TEST(Simulator, NamesAChainWithoutGaps) {
    for (std::uint64_t const seed : support::seeds("critical", 100)) {
        support::Random random{seed};
        Subject const subject = random_subject(random);
        auto const costs = support::random_costs(random, subject.plan, support::Wires::shared);
        Simulation const result = run(subject.set, costs);
        auto const& path = result.critical_path;
        ASSERT_FALSE(path.empty());
        EXPECT_EQ(path.front().cause, Cause::nothing);
        EXPECT_DOUBLE_EQ(path.front().span.start, 0);
        EXPECT_DOUBLE_EQ(path.back().span.end, result.seconds);
        for (std::size_t i = 1; i < path.size(); ++i)
            EXPECT_LE(path[i].span.start, path[i].span.end);
        // A sender that waited for its receiver knows late that its message is gone; the wire was
        // free for the next one before.
        for (std::size_t i = 1; i < path.size(); ++i)
            if (path[i].cause != Cause::wire) {
                EXPECT_LE(path[i - 1].span.end, path[i].span.end);
            }
    }
}

// Breadth-first over p groups of one rank with two chunks each: the first group needs m / p buffers
// from the last, if the other links have as many as block them too, and m - p + 1 to stall nothing.
TEST(LinkNeeds, AreThoseOfBreadthFirst) {
    for (std::int64_t const p : {2, 3, 4})
        for (std::int64_t const m : {p, 2 * p, 3 * p, 4 * p}) {
            support::RandomCase c = chain(p, m);
            c.config.decoder_layers = 2 * p;
            c.plan.chunks.clear();
            for (std::int64_t i = 0; i < 2 * p; ++i)
                c.plan.chunks.push_back(
                    {core::GroupId{i % p}, {2 * i, i + 1 < 2 * p ? 2 * i + 2 : 4 * p + 2}});
            c.plan.boundary_types = program::default_boundary_types(c.plan);
            auto const costs = program::uniform_costs(c.plan, {1, 1, 1, 2});
            std::vector<std::int64_t> const workspace(static_cast<std::size_t>(p));
            c.plan.schedule = "breadth_first";
            auto const needs =
                link_needs(c.plan, model::Model{c.config}, generate(c.plan, ProgramKind::train),
                           {.device_workspace_bytes = workspace, .costs = &costs});
            for (LinkNeed const& need : needs) {
                bool const forward = need.direction == program::Direction::forward;
                bool const wraps = need.sender.value == (forward ? p - 1 : 0) &&
                                   need.receiver.value == (forward ? 0 : p - 1);
                EXPECT_LE(need.smallest, core::div_up(m, p));
                if (wraps && forward) {
                    EXPECT_EQ(need.smallest, core::div_up(m, p)) << "p " << p << " m " << m;
                    EXPECT_EQ(need.without_stall, m - p + 1) << "p " << p << " m " << m;
                }
            }
        }
}

TEST(Lowering, RefusesWhatDoesNotFitWithTheNumbers) {
    support::RandomCase const c = chain(2, 4);
    program::Costs const costs = program::uniform_costs(c.plan, {1, 1, 1, 2});
    auto const schedule = generate(c.plan, ProgramKind::train);
    LoweringOptions options{.device_workspace_bytes = {0, 0}, .costs = &costs};
    model::Model const model{c.config};
    std::int64_t const needed = lower(c.plan, model, schedule, options).programs[0].arena_bytes;
    options.memory_limit_bytes = {needed, std::int64_t{1} << 40};
    EXPECT_EQ(lower(c.plan, model, schedule, options).programs[0].arena_bytes, needed);
    options.memory_limit_bytes[0] = needed / 2;
    try {
        lower(c.plan, model, schedule, options);
        FAIL() << "accepted";
    } catch (core::ConfigError const& error) {
        EXPECT_NE(std::string{error.what()}.find("rank 0 needs"), std::string::npos);
        EXPECT_NE(std::string{error.what()}.find("; use 'plan.recompute', smaller microbatches"),
                  std::string::npos);
    }
    program::Plan plan = c.plan; // on a GPU, with one lever in use
    plan.chunks[0].recompute = true;
    plan.groups[0].own_memory = {true};
    plan.groups[0].offload = {.optimizer = true};
    options.memory_limit_bytes[0] = 1;
    try {
        lower(plan, model, schedule, options);
        FAIL() << "accepted";
    } catch (core::ConfigError const& error) {
        EXPECT_NE(std::string{error.what()}.find("; use [plan.offload] (parameters, activations), "
                                                 "smaller microbatches"),
                  std::string::npos);
    }
}

// Fewer buffers where memory asks for it, but never too few.
TEST(Lowering, TakesTheBuffersThatFit) {
    support::RandomCase c = chain(2, 12);
    c.plan.schedule = "gpipe";
    program::Costs costs = program::uniform_costs(c.plan, {1, 1, 1, 2});
    double const bytes =
        static_cast<double>(model::boundary_bytes(c.config, 1, core::DType::float32));
    costs.network = program::uniform_network(2, {20, 0.5 / bytes});
    auto const schedule = generate(c.plan, ProgramKind::train);
    LoweringOptions options{.device_workspace_bytes = {0, 0}, .costs = &costs};
    model::Model const model{c.config};
    auto const received = [&] {
        auto const set = lower(c.plan, model, schedule, options);
        return program::memory_table(set.programs[1])
            .bytes[static_cast<int>(program::BufferKind::received)];
    };
    std::int64_t const most = received();
    auto const arena = lower(c.plan, model, schedule, options).programs[1].arena_bytes;
    options.memory_limit_bytes = {std::int64_t{1} << 40, arena - most / 2};
    EXPECT_LE(received(), most / 2);
    EXPECT_GT(received(), 0);
}

} // namespace
} // namespace evener::schedule
