// SPDX-License-Identifier: Apache-2.0
// Sessions on fake GPUs with and without offload and recomputation: the same numbers, the memory that
// the table says, homes that outlive an exchange of programs.
#include "comm/communicator.hpp"
#include "device/plugin.hpp"
#include "runtime/parameters.hpp"
#include "runtime/session.hpp"
#include "runtime/tiny_model.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <numeric>
#include <utility>

namespace evener::runtime {
namespace {

constexpr std::int64_t layers = 10;

model::ModelConfig config() {
    model::ModelConfig config = tiny_model();
    config.decoder_layers = 4;
    return config;
}

/// All ranks in one group that computes each microbatch together, five chunks of two layers.
program::Plan plan_of(std::int64_t ranks) {
    program::Plan plan;
    plan.batch_size = 4;
    plan.microbatch_size = 2;
    plan.schedule = "breadth_first";
    program::Group& group = plan.groups.emplace_back();
    for (std::int64_t r = 0; r < ranks; ++r) {
        group.ranks.emplace_back(r);
        group.shares.push_back(1);
        group.shard_weights.push_back(static_cast<double>(r + 1));
        group.own_memory.push_back(true);
    }
    for (std::int64_t begin = 0; begin < layers; begin += 2)
        plan.chunks.push_back({core::GroupId{0}, {begin, begin + 2}});
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

program::Plan with_levers(program::Plan plan, int levers) {
    plan.groups[0].offload = {(levers & 1) != 0, (levers & 2) != 0, (levers & 4) != 0};
    for (program::Chunk& chunk : plan.chunks)
        chunk.recompute = (levers & 8) != 0;
    plan.interleaved_updates = (levers & 16) != 0;
    return plan;
}
/// Which to try: each alone and all together, at full size every set.
std::vector<int> lever_sets() {
    if (support::size() != support::Size::full)
        return {1, 2, 4, 8, 31};
    std::vector<int> all(31);
    std::iota(all.begin(), all.end(), 1);
    return all;
}

class Offload : public testing::Test {
  protected:
    Offload() {
        setenv("EVENER_HOSTCUDA_PEAKS", folder_.path().c_str(), 1);
        device_ = device::open_device(device::Backend::cuda, {1, world_.rank()});
        cache_.emplace(*device_);
    }

    program::ProgramSet lower(program::Plan const& plan, program::ProgramKind kind) {
        return schedule::lower(plan, model_, schedule::generate(plan, kind),
                               {kind, workspace_, moments});
    }

    std::unique_ptr<Session> session(program::Plan const& plan) {
        core::RankId const rank{world_.rank()};
        std::int64_t const mine = prepare_plan(*cache_, plan, model_, rank, true);
        workspace_.clear();
        for (auto const& bytes :
             comm::all_gather_values(world_, std::span<std::int64_t const>{&mine, 1}))
            workspace_.push_back(bytes.front());
        auto result = std::make_unique<Session>(
            SessionInput{.rank = rank,
                         .model = model_,
                         .cache = *cache_,
                         .transport = transport_,
                         .train = lower(plan, program::ProgramKind::train),
                         .evaluate = lower(plan, program::ProgramKind::evaluate),
                         .device_workspace_bytes = mine,
                         .arena = {}});
        initialize_parameters(*result, 3);
        StepState& state = result->state();
        state.loss_scale = 1.0f / 20;
        state.decayed.learning_rate = state.not_decayed.learning_rate = 0.05f;
        return result;
    }

    double train_loss(Session& session, std::int64_t step) {
        session.state().step = step;
        session.run_train(tokens_);
        return session.state().scalars.loss_sum / 20;
    }
    double evaluation_loss(Session& session) {
        session.run_evaluate(tokens_);
        return session.state().scalars.loss_sum / 20;
    }

    /// Losses of three steps and an evaluation; behind the first step the training programs become
    /// those of `then`.
    std::vector<double> losses(program::Plan const& plan, program::Plan const* then = nullptr) {
        auto const running = session(plan);
        std::vector<double> result{train_loss(*running, 0)};
        if (then != nullptr)
            running->exchange_train(lower(*then, program::ProgramKind::train));
        for (std::int64_t const step : {1, 2})
            result.push_back(train_loss(*running, step));
        result.push_back(evaluation_loss(*running));
        return result;
    }

    std::int64_t peak_bytes() const {
        std::int64_t bytes = -1;
        std::ifstream{folder_ / fmt::format("device-{}", world_.rank())} >> bytes;
        return bytes;
    }

    static constexpr std::int64_t moments = 2;
    support::TemporaryFolder folder_{"offload"};
    comm::Communicator world_ = comm::Communicator::duplicate(MPI_COMM_WORLD);
    comm::Transport transport_{world_.get()};
    model::Model model_{config()};
    CountingTokens tokens_;
    std::unique_ptr<device::Device> device_;
    std::optional<OperationCache> cache_;
    std::vector<std::int64_t> workspace_;
};

TEST_F(Offload, ChangesNoLoss) {
    program::Plan const plain = plan_of(world_.size());
    auto const expected = losses(plain);
    EXPECT_LT(expected[2], expected[0]); // it learns
    for (int const levers : lever_sets())
        EXPECT_EQ(losses(with_levers(plain, levers)), expected) << "levers " << levers;
}

TEST_F(Offload, TakesTheDeviceMemoryThatTheTableSays) {
    program::Plan const plain = plan_of(world_.size());
    for (int const levers : {0, 1, 2, 4, 8, 31}) {
        auto const running = session(with_levers(plain, levers));
        train_loss(*running, 0);
        evaluation_loss(*running);
        program::Program const& program =
            running->sets().programs[static_cast<std::size_t>(world_.rank())];
        program::MemoryTable const table = program::memory_table(program);
        std::int64_t rows = 0;
        for (std::int64_t const bytes : table.bytes)
            rows += bytes;
        EXPECT_EQ(peak_bytes(), table.total_bytes) << "levers " << levers;
        EXPECT_EQ(rows, table.total_bytes) << "levers " << levers;
        EXPECT_EQ(running->pinned().homes, program.pinned_bytes);
        EXPECT_EQ(program.pinned_bytes > 0, (levers & 7) != 0) << "levers " << levers;
    }
}

// A gradient that is not finite leaves weights and moments as they were, in their homes too.
TEST_F(Offload, SkippedStepsChangeNothing) {
    auto const losses_around = [&](int levers) {
        auto const running = session(with_levers(plan_of(world_.size()), levers));
        std::vector<double> result{train_loss(*running, 0)};
        float const scale =
            std::exchange(running->state().loss_scale, std::numeric_limits<float>::infinity());
        train_loss(*running, 1);
        EXPECT_FALSE(is_finite(running->state().scalars));
        running->state().loss_scale = scale;
        result.push_back(evaluation_loss(*running));
        result.push_back(train_loss(*running, 2));
        return result;
    };
    auto const expected = losses_around(0);
    EXPECT_TRUE(std::isfinite(expected.back()));
    for (int const levers : {1, 2, 15})
        EXPECT_EQ(losses_around(levers), expected) << "levers " << levers;
}

// GPipe keeps every microbatch, so its regions are larger than those of breadth-first order in
// turns: weights and optimizer state move, in both memories.
TEST_F(Offload, HomesOutliveAnExchangeOfTheSchedule) {
    program::Plan const plain = plan_of(world_.size());
    auto const expected = losses(plain);
    for (int const levers : {0, 15}) {
        program::Plan const plan = with_levers(plain, levers);
        program::Plan gpipe = plan;
        gpipe.schedule = "gpipe";
        EXPECT_EQ(losses(plan, &gpipe), expected) << "levers " << levers;
        EXPECT_EQ(losses(gpipe, &plan), expected) << "levers " << levers;
    }
}

} // namespace
} // namespace evener::runtime
