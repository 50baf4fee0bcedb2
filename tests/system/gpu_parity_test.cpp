// SPDX-License-Identifier: Apache-2.0
// GPU ranks train the model that CPU ranks train: random plans on fake GPUs (the CUDA plug-in's own
// sources on the host layer), all ranks or some of them, against one CPU rank.
#include "io/files.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "system/fake_gpus.hpp"
#include "system/parity_cases.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace evener::system_test {
namespace {

/// With fewer GPUs than ranks the first ranks take them, the others compute on the CPU.
/// `direct_jobs` counts the jobs with a group that reduces among its GPUs.
void run_case(std::uint64_t seed, ParityCase const& c, std::int64_t gpus, int& direct_jobs) {
    SCOPED_TRACE(fmt::format("EVENER_TEST_SEED={}", seed));
    support::TemporaryFolder const folder{"gpu-parity"};
    auto const tokens = folder / "tokens.bin";
    write_tokens(tokens, c.config.vocabulary, 40 * c.config.sequence_length + 1, seed);

    job::Job alone = with_plan(job_of(c, tokens, folder / "one"),
                               one_rank(c.plan, 2 + 2 * c.config.decoder_layers));
    alone.run.devices = job::Devices::cpu;
    alone.log.gradients = (folder / "one-gradients").string();
    auto const first = train(alone);
    ASSERT_EQ(first.exit_code, 0) << first.errors;

    job::Job several = with_plan(job_of(c, tokens, folder / "several"), c.plan);
    several.run.devices = gpus == c.plan.rank_count() ? job::Devices::gpu : job::Devices::automatic;
    several.log.gradients = (folder / "several-gradients").string();
    if (!c.orders.empty()) {
        several.plan.schedule_file = (folder / "orders.csv").string();
        io::write_file_atomically(several.plan.schedule_file, c.orders);
    }
    TrainOptions options{.ranks = static_cast<int>(c.plan.rank_count()), .delay_seed = seed | 1};
    options.environment = fake_gpus(gpus, seed);
    auto const second = train(several, options);
    ASSERT_EQ(second.exit_code, 0) << second.errors;
    EXPECT_NE(second.errors.find("host CPU as GPU"), std::string::npos) << second.errors;
    direct_jobs += second.errors.find(": among its GPUs (NCCL ") != std::string::npos;
    expect_equal_losses(folder / "one", folder / "several");
    auto const gradients = [&](char const* name) {
        return tensors(step_folder(folder / name, 1), "gradients");
    };
    expect_equal_gradients(gradients("one-gradients"), gradients("several-gradients"), 1);

    // The same plan twice: equal to the bit, whatever the timing and the order of streams.
    job::Job again = several;
    again.run.out = (folder / "again").string();
    again.log.gradients.clear();
    options.delay_seed = (seed ^ 0x5555) | 1;
    options.environment = fake_gpus(gpus, seed + 1);
    auto const third = train(again, options);
    ASSERT_EQ(third.exit_code, 0) << third.errors;
    EXPECT_TRUE(same_checkpoint(step_folder(folder / "several", parity_steps),
                                step_folder(folder / "again", parity_steps)));
}

bool has_mixed_group(program::Plan const& plan, std::int64_t gpus) {
    return std::any_of(plan.groups.begin(), plan.groups.end(), [&](program::Group const& group) {
        auto const on_gpu = std::count_if(group.ranks.begin(), group.ranks.end(),
                                          [&](core::RankId rank) { return rank.value < gpus; });
        return on_gpu > 0 && on_gpu < std::ssize(group.ranks);
    });
}

TEST(GpuParity, RandomPlansOnGpusTrainTheModelThatOneCpuRankTrains) {
    int plans = 0;
    int mixed_jobs = 0;
    int mixed_groups = 0;
    int direct_jobs = 0;
    for (std::uint64_t const seed : support::seeds("gpu_parity", 50)) {
        ParityCase const c = random_parity_case(seed);
        support::Random random{seed ^ 0x6770};
        std::int64_t const ranks = c.plan.rank_count();
        std::int64_t const gpus = random.chance(40) ? ranks : random.integer(1, ranks - 1);
        run_case(seed, c, gpus, direct_jobs);
        if (HasFatalFailure())
            return;
        ++plans;
        mixed_jobs += gpus < ranks;
        mixed_groups += has_mixed_group(c.plan, gpus);
    }
    fmt::print(
        "{} plans: {} with GPU and CPU ranks, {} with both in one group, {} with a group that "
        "reduces among its GPUs\n",
        plans, mixed_jobs, mixed_groups, direct_jobs);
    if (plans < 50)
        return; // too few to speak of shares
    EXPECT_GE(plans - mixed_jobs, 10);
    EXPECT_GE(mixed_jobs, 15);
    EXPECT_GE(mixed_groups, 10);
    EXPECT_GE(direct_jobs, 10);
}

/// What of the three levers a plan pulls, at random.
program::Plan with_levers(support::Random& random, program::Plan plan, bool interleave) {
    for (program::Group& group : plan.groups)
        group.offload = {random.chance(50), random.chance(50), random.chance(50)};
    for (program::Chunk& chunk : plan.chunks)
        chunk.recompute = random.chance(40);
    plan.interleaved_updates = interleave;
    return plan;
}

struct Levers {
    int plans = 0, parameters = 0, optimizer = 0, activations = 0, recompute = 0, interleaved = 0;

    void add(program::Plan const& plan) {
        ++plans;
        auto const any = [](auto const& list, auto const& has) {
            return std::any_of(list.begin(), list.end(), has);
        };
        parameters += any(plan.groups, [](auto const& group) { return group.offload.parameters; });
        optimizer += any(plan.groups, [](auto const& group) { return group.offload.optimizer; });
        activations +=
            any(plan.groups, [](auto const& group) { return group.offload.activations; });
        recompute += any(plan.chunks, [](auto const& chunk) { return chunk.recompute; });
        interleaved += plan.interleaved_updates;
    }
};

/// The plan with and without its levers, and each going on from the other's checkpoint: equal to the
/// bit.
void run_lever_case(std::uint64_t seed, Levers& levers) {
    SCOPED_TRACE(fmt::format("EVENER_TEST_SEED={}", seed));
    support::Random random{seed ^ 0x1e7e};
    support::TemporaryFolder const folder{"gpu-levers"};
    ParityCase const c = random_parity_case(seed);
    auto const tokens = folder / "tokens.bin";
    write_tokens(tokens, c.config.vocabulary, 40 * c.config.sequence_length + 1, seed);
    std::int64_t const ranks = c.plan.rank_count();
    std::int64_t const gpus = random.chance(40) ? ranks : random.integer(1, ranks);
    program::Plan const plan = with_levers(random, c.plan, !c.clipped && random.chance(40));
    levers.add(plan);

    job::Job plain = with_plan(job_of(c, tokens, folder / "plain"), c.plan);
    plain.train.on_nonfinite = job::OnNonfinite::report;
    plain.log.gradients = (folder / "plain-gradients").string();
    if (random.chance(60)) {
        plain.optimizer.kind = job::OptimizerKind::adamw;
        plain.optimizer.learning_rate = 0.01;
    }
    if (gpus == ranks && random.chance(50))
        plain.precision.compute = job::Compute::bfloat16;
    job::Job pulled = with_plan(plain, plan);
    pulled.run.out = (folder / "pulled").string();
    pulled.log.gradients = (folder / "pulled-gradients").string();
    TrainOptions options{.ranks = static_cast<int>(ranks), .delay_seed = seed | 1};
    options.environment = fake_gpus(gpus, seed);
    auto const first = train(plain, options);
    ASSERT_EQ(first.exit_code, 0) << first.errors;
    options.delay_seed ^= 0x5550;
    options.environment = fake_gpus(gpus, seed + 1);
    auto const second = train(pulled, options);
    ASSERT_EQ(second.exit_code, 0) << second.errors;
    EXPECT_EQ(metrics(folder / "plain", "loss"), metrics(folder / "pulled", "loss"));
    EXPECT_TRUE(same_checkpoint(step_folder(folder / "plain", parity_steps),
                                step_folder(folder / "pulled", parity_steps)));
    for (std::int64_t const step : {std::int64_t{1}, parity_steps})
        EXPECT_TRUE(same_checkpoint(step_folder(folder / "plain-gradients", step),
                                    step_folder(folder / "pulled-gradients", step)));

    for (auto const& [job, from] : {std::pair{plain, "pulled"}, std::pair{pulled, "plain"}}) {
        job::Job next = job;
        next.run.out += "-next";
        next.train.steps = parity_steps + 2;
        next.checkpoint.resume = step_folder(folder / from, parity_steps).string();
        next.log.gradients.clear();
        auto const result = train(next, options);
        ASSERT_EQ(result.exit_code, 0) << result.errors;
    }
    EXPECT_TRUE(same_checkpoint(step_folder(folder / "plain-next", parity_steps + 2),
                                step_folder(folder / "pulled-next", parity_steps + 2)));
}

TEST(GpuParity, OffloadAndRecomputationChangeNothing) {
    Levers levers;
    for (std::uint64_t const seed : support::seeds("gpu_levers", 40)) {
        run_lever_case(seed, levers);
        if (HasFatalFailure())
            return;
    }
    fmt::print(
        "{} plans: {} offload parameters, {} the optimizer, {} activations, {} recompute, {} "
        "interleave updates\n",
        levers.plans, levers.parameters, levers.optimizer, levers.activations, levers.recompute,
        levers.interleaved);
    if (levers.plans < 40)
        return; // too few to speak of shares
    for (int const count :
         {levers.parameters, levers.optimizer, levers.activations, levers.recompute})
        EXPECT_GE(count, 20);
    EXPECT_GE(levers.interleaved, 5);
}

TEST(GpuParity, BFloat16LossesFollowThoseOfTheCpu) {
    support::TemporaryFolder const folder{"gpu-bfloat16"};
    model::ModelConfig config;
    config.vocabulary = 61;
    config.hidden_size = 64;
    config.decoder_layers = 2;
    config.heads = 2;
    config.kv_heads = 1;
    config.head_size = 64;
    config.ffn_size = 96;
    config.sequence_length = 24;
    auto const tokens = folder / "tokens.bin";
    write_tokens(tokens, config.vocabulary, 40 * config.sequence_length + 1, 9);
    std::int64_t const steps = support::size() == support::Size::quick ? 10 : 100;
    job::Job cpu = small_job(config, tokens, folder / "cpu", steps);
    cpu.train.batch_size = 4;
    cpu.train.microbatch_size = 2;
    cpu.run.devices = job::Devices::cpu;
    cpu.optimizer.learning_rate = 0.05;
    cpu.checkpoint.every = 0;
    auto const first = train(cpu);
    ASSERT_EQ(first.exit_code, 0) << first.errors;
    job::Job gpu = cpu;
    gpu.run.out = (folder / "gpu").string();
    gpu.run.devices = job::Devices::gpu;
    gpu.precision.compute = job::Compute::bfloat16;
    gpu.precision.boundary = job::Compute::automatic;
    auto const second = train(gpu, {.ranks = 2, .environment = fake_gpus(2, 3)});
    ASSERT_EQ(second.exit_code, 0) << second.errors;
    auto const expected = metrics(folder / "cpu", "loss");
    auto const found = metrics(folder / "gpu", "loss");
    ASSERT_EQ(static_cast<std::int64_t>(expected.size()), steps);
    ASSERT_EQ(expected.size(), found.size());
    for (auto const& [step, loss] : expected)
        EXPECT_NEAR(found.at(step), loss, 0.005 * loss) << "step " << step;
    EXPECT_LT(expected.rbegin()->second, expected.begin()->second); // it did learn
}

} // namespace
} // namespace evener::system_test
