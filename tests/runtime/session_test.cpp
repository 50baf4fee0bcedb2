// SPDX-License-Identifier: Apache-2.0
// All that depends on a plan lives in a session: one process can run several plans in turn.
#include "comm/communicator.hpp"
#include "device/plugin.hpp"
#include "runtime/parameters.hpp"
#include "runtime/session.hpp"
#include "runtime/tiny_model.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"

#include <gtest/gtest.h>

namespace evener::runtime {
namespace {

program::Plan stages(std::int64_t ranks) {
    program::Plan plan;
    plan.batch_size = 6;
    plan.microbatch_size = 2;
    for (std::int64_t g = 0; g < ranks; ++g) {
        plan.groups.push_back({.ranks = {core::RankId{g}}, .shares = {1}, .shard_weights = {1}});
        plan.chunks.push_back({core::GroupId{g}, {6 * g / ranks, 6 * (g + 1) / ranks}});
    }
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

program::Plan one_group(std::int64_t ranks) {
    program::Plan plan = stages(1);
    plan.groups[0] = {};
    for (std::int64_t r = 0; r < ranks; ++r) {
        plan.groups[0].ranks.emplace_back(r);
        plan.groups[0].shares.push_back(static_cast<double>(r + 1));
        plan.groups[0].shard_weights.push_back(1);
    }
    return plan;
}

/// Loss of two steps under the plan, in a session that is gone afterwards; the second under `then`,
/// where given, with whose programs the training programs are exchanged.
std::vector<double> losses(comm::Communicator const& world, comm::Transport& transport,
                           OperationCache& cache, model::Model const& model,
                           program::Plan const& plan, program::Plan const* then = nullptr) {
    core::RankId const rank{world.rank()};
    std::int64_t const mine = prepare_plan(cache, plan, model, rank, false);
    std::vector<std::int64_t> workspace;
    for (auto const& bytes :
         comm::all_gather_values(world, std::span<std::int64_t const>{&mine, 1}))
        workspace.push_back(bytes.front());
    auto const lower = [&](program::ProgramKind kind) {
        return schedule::lower(plan, model, schedule::generate(plan, kind), {kind, workspace, 0});
    };
    Session session{{.rank = rank,
                     .model = model,
                     .cache = cache,
                     .transport = transport,
                     .train = lower(program::ProgramKind::train),
                     .evaluate = lower(program::ProgramKind::evaluate),
                     .device_workspace_bytes = mine,
                     .arena = {},
                     .adamw = false}};
    initialize_parameters(session, 3);
    CountingTokens const tokens;
    StepState& state = session.state();
    state.loss_scale = 1.0f / 30;
    state.decayed.learning_rate = state.not_decayed.learning_rate = 0.5f;
    std::vector<double> result;
    for (int step = 0; step < 2; ++step) {
        state.step = step;
        if (step == 1 && then != nullptr)
            session.exchange_train(schedule::lower(
                *then, model, schedule::generate(*then, program::ProgramKind::train),
                {program::ProgramKind::train, workspace, 0}));
        session.run_train(tokens);
        result.push_back(state.scalars.loss_sum / 30);
    }
    session.run_evaluate(tokens);
    result.push_back(state.scalars.loss_sum / 30);
    return result;
}

TEST(Session, CanBeMadeAgainWithAnotherPlanInOneProcess) {
    comm::Communicator const world = comm::Communicator::duplicate(MPI_COMM_WORLD);
    auto const device = device::open_device(device::Backend::reference, {1});
    OperationCache cache{*device};
    comm::Transport transport{world.get()};
    model::Model const model{tiny_model()};
    auto const first = losses(world, transport, cache, model, stages(world.size()));
    auto const second = losses(world, transport, cache, model, one_group(world.size()));
    auto const third = losses(world, transport, cache, model, stages(world.size()));
    EXPECT_EQ(first, third); // to the bit
    for (std::size_t i = 0; i < first.size(); ++i)
        EXPECT_NEAR(second[i], first[i], 1e-5 * first[i]);
    EXPECT_LT(first[1], first[0]); // and it learns
}

// GPipe keeps every microbatch, so its arena is larger than that of 1F1B: weights and shards move.
TEST(Session, ExchangesTheScheduleBetweenTwoSteps) {
    comm::Communicator const world = comm::Communicator::duplicate(MPI_COMM_WORLD);
    auto const device = device::open_device(device::Backend::reference, {1});
    OperationCache cache{*device};
    comm::Transport transport{world.get()};
    model::Model const model{tiny_model()};
    program::Plan const plan = stages(world.size());
    program::Plan gpipe = plan;
    gpipe.schedule = "gpipe";
    auto const expected = losses(world, transport, cache, model, plan);
    EXPECT_EQ(losses(world, transport, cache, model, plan, &gpipe), expected);
    EXPECT_EQ(losses(world, transport, cache, model, gpipe, &plan), expected);
}

} // namespace
} // namespace evener::runtime
