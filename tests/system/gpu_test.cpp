// SPDX-License-Identifier: Apache-2.0
// What users see of GPUs: who computes on one, what is refused and why.
#include "io/files.hpp"
#include "job/parse.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include "system/fake_gpus.hpp"
#include "system/runs.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace evener::system_test {
namespace {

class GpuRuns : public testing::Test {
  protected:
    GpuRuns() {
        config_.vocabulary = 33;
        config_.hidden_size = 24;
        config_.decoder_layers = 3;
        config_.heads = config_.kv_heads = 2;
        config_.head_size = 12;
        config_.ffn_size = 40;
        config_.sequence_length = 9;
        write_tokens(folder_ / "tokens.bin", config_.vocabulary, 300, 5);
    }

    job::Job job(std::string const& name, job::Devices devices, std::int64_t steps = 3) const {
        job::Job result = small_job(config_, folder_ / "tokens.bin", folder_ / name, steps);
        result.train.batch_size = 6;
        result.train.microbatch_size = 2;
        result.run.devices = devices;
        return result;
    }

    std::int64_t layers() const { return 2 + 2 * config_.decoder_layers; }

    void make_large() {
        config_.decoder_layers = 8;
        config_.hidden_size = 64;
        config_.head_size = 32;
        config_.ffn_size = 160;
        config_.sequence_length = 24;
    }

    void expect_equal_losses(std::string const& a, std::string const& b) const {
        auto const expected = metrics(folder_ / a, "loss");
        auto const found = metrics(folder_ / b, "loss");
        ASSERT_FALSE(expected.empty());
        ASSERT_EQ(expected.size(), found.size());
        for (auto const& [step, loss] : expected)
            EXPECT_NEAR(found.at(step), loss, 1e-5 * std::max(1.0, loss)) << "step " << step;
    }

    support::TemporaryFolder folder_{"gpu"};
    model::ModelConfig config_;
};

int count(std::string const& text, std::string const& part) {
    int result = 0;
    for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1))
        ++result;
    return result;
}

TEST_F(GpuRuns, RanksBeyondTheGpusComputeOnTheCpu) {
    ASSERT_EQ(train(job("cpu", job::Devices::cpu)).exit_code, 0);
    auto const mixed =
        train(job("mixed", job::Devices::automatic), {.ranks = 3, .environment = fake_gpus(2)});
    ASSERT_EQ(mixed.exit_code, 0) << mixed.errors;
    EXPECT_EQ(count(mixed.errors, "host CPU as GPU "), 3) << mixed.errors; // head and table
    EXPECT_EQ(count(mixed.errors, "x86-64-v"), 1) << mixed.errors;
    expect_equal_losses("cpu", "mixed");
}

TEST_F(GpuRuns, ACheckpointGoesFromGpusToCpusAndBack) {
    job::Job whole = job("whole", job::Devices::cpu, 6);
    ASSERT_EQ(train(whole).exit_code, 0);
    job::Job parts = job("parts", job::Devices::gpu, 2);
    parts.optimizer = whole.optimizer;
    auto const first = train(parts, {.ranks = 2, .environment = fake_gpus(2)});
    ASSERT_EQ(first.exit_code, 0) << first.errors;
    parts.run.devices = job::Devices::cpu;
    parts.train.steps = 4;
    ASSERT_EQ(train(parts).exit_code, 0);
    parts.run.devices = job::Devices::gpu;
    parts.train.steps = 6;
    auto const last = train(parts, {.environment = fake_gpus(1)});
    ASSERT_EQ(last.exit_code, 0) << last.errors;
    expect_equal_losses("whole", "parts");
}

TEST_F(GpuRuns, EqualGpusOfAGroupReduceAmongThemselves) {
    ASSERT_EQ(train(job("cpu", job::Devices::cpu)).exit_code, 0);
    job::Job group = job("group", job::Devices::gpu);
    group.plan.groups = {even_group({0, 1}, layers())};
    auto const direct = train(group, {.ranks = 2, .environment = fake_gpus(2, 3)});
    ASSERT_EQ(direct.exit_code, 0) << direct.errors;
    EXPECT_EQ(count(direct.errors, "gradients and weights of group 0: among its GPUs (NCCL "), 1)
        << direct.errors;
    expect_equal_losses("cpu", "group");

    group.run.out = (folder_ / "host").string();
    group.run.nccl = job::Nccl::off;
    auto const host = train(group, {.ranks = 2, .environment = fake_gpus(2, 3)});
    ASSERT_EQ(host.exit_code, 0) << host.errors;
    EXPECT_EQ(count(host.errors, "group 0: by way of host memory ('run.nccl' is \"off\")"), 1)
        << host.errors;
    expect_equal_losses("cpu", "host");
}

/// One collective queue, two who work on it: the tied weight's bucket is of both groups.
TEST_F(GpuRuns, WeightsThatGroupsShareGoThroughHostMemoryBesideNccl) {
    job::Job one = job("cpu", job::Devices::cpu);
    one.model.tied_embeddings = true;
    ASSERT_EQ(train(one).exit_code, 0);
    job::Job groups = one;
    groups.run.out = (folder_ / "groups").string();
    groups.run.devices = job::Devices::gpu;
    groups.plan.groups = {even_group({0, 1}, 3), even_group({2, 3}, layers() - 3)};
    auto const result =
        train(groups, {.ranks = 4, .delay_seed = 7, .environment = fake_gpus(4, 9)});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(count(result.errors, "among its GPUs (NCCL "), 2) << result.errors;
    expect_equal_losses("cpu", "groups");
}

TEST_F(GpuRuns, UnequalGpusOfAGroupExchangeThroughHostMemory) {
    ASSERT_EQ(train(job("cpu", job::Devices::cpu)).exit_code, 0);
    job::Job group = job("group", job::Devices::gpu);
    group.plan.groups = {even_group({0, 1}, layers())};
    auto environment = fake_gpus(2);
    environment.emplace_back("EVENER_HOSTCUDA_MODELS=old model,new model");
    auto const result = train(group, {.ranks = 2, .environment = environment});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(count(result.errors, "group 0: by way of host memory (ranks 0 and 1 differ in GPU: "
                                   "'old model, compute capability 9.0' and 'new model, "),
              1)
        << result.errors;
    expect_equal_losses("cpu", "group");
}

TEST_F(GpuRuns, MpiGetsDeviceMemoryWhereItTakesItAndTheJobWantsIt) {
    ASSERT_EQ(train(job("cpu", job::Devices::cpu)).exit_code, 0);
    job::Job stages = job("stages", job::Devices::gpu);
    stages.plan.groups = {even_group({0}, 3), even_group({1}, layers() - 3)};
    stages.run.cuda_aware_mpi = job::CudaAwareMpi::on;
    auto environment = fake_gpus(2, 5);
    auto const refused = train(stages, {.ranks = 2, .environment = environment});
    EXPECT_EQ(refused.exit_code, 2) << refused.errors;
    EXPECT_NE(refused.errors.find("'run.cuda_aware_mpi' is \"on\" (Open MPI v"), std::string::npos)
        << refused.errors;
    EXPECT_NE(refused.errors.find("use an MPI that is built with CUDA"), std::string::npos)
        << refused.errors;

    stages.run.cuda_aware_mpi = job::CudaAwareMpi::automatic;
    auto const staged = train(stages, {.ranks = 2, .environment = environment});
    ASSERT_EQ(staged.exit_code, 0) << staged.errors;
    EXPECT_EQ(count(staged.errors, "messages of GPU ranks: by way of pinned host memory (Open MPI"),
              1)
        << staged.errors;
    expect_equal_losses("cpu", "stages");

    for (std::string const& word : mpi_shim())
        environment.push_back(word);
    environment.emplace_back("EVENER_SHIM_CUDA_AWARE=1");
    environment.emplace_back("EVENER_HOSTCUDA_REACH=1");
    stages.run.out = (folder_ / "direct").string();
    auto const direct = train(stages, {.ranks = 2, .environment = environment});
    ASSERT_EQ(direct.exit_code, 0) << direct.errors;
    EXPECT_EQ(count(direct.errors, "messages of GPU ranks: from and to GPU memory (Open MPI"), 1)
        << direct.errors;
    expect_equal_losses("cpu", "direct");
}

TEST_F(GpuRuns, AProfileHasTheCopiesOfGpusAndThePlanSaysWhatIsOffloaded) {
    job::Job mixed = job("offload", job::Devices::automatic);
    mixed.plan.groups = {even_group({0, 1}, job::layer_count(mixed.model))};
    mixed.plan.offload = {true, true, true};
    mixed.plan.recompute = true;
    auto const profiled =
        train(mixed, {.ranks = 2, .environment = fake_gpus(1), .command = "profile"});
    ASSERT_EQ(profiled.exit_code, 0) << profiled.errors;
    std::string const file = (folder_ / "offload" / "profile.json").string();
    auto const ranks = nlohmann::json::parse(io::read_file(file)).at("ranks");
    for (char const* const direction : {"in", "out"})
        EXPECT_GT(ranks[0].at("copies").at(direction).at("seconds_per_byte").get<double>(), 0);
    EXPECT_FALSE(ranks[1].contains("copies"));
    auto const trained = train(
        mixed, {.ranks = 2, .settings = {"plan.profile=" + file}, .environment = fake_gpus(1)});
    ASSERT_EQ(trained.exit_code, 0) << trained.errors;
    for (std::string const part : {"1 GPU, 1 CPU", "yes       parameters, optimizer, activations",
                                   "pinned memory of each", " behind computations"})
        EXPECT_EQ(count(trained.errors, part), 1) << part << "\n" << trained.errors;
}

/// The job to copy, with a small model: on two GPUs and two CPUs, and the same file on CPUs alone.
TEST_F(GpuRuns, TheMixedExampleTrainsWithAndWithoutGpus) {
    job::Job example = job::parse_job((support::source_root() / "inputs" / "mixed.toml").string());
    job::Job const small = job("mixed-gpu", job::Devices::automatic);
    example.model.preset = job::Preset::none;
    for (auto const member : {&job::Model::vocabulary, &job::Model::hidden_size, &job::Model::heads,
                              &job::Model::kv_heads, &job::Model::head_size, &job::Model::ffn_size,
                              &job::Model::sequence_length})
        example.model.*member = small.model.*member;
    example.data = small.data;
    example.precision = small.precision;
    example.train.steps = 2;
    example.optimizer.warmup_steps = 0;
    example.optimizer.decay_steps = 2;
    example.run = small.run;
    auto const mixed = train(example, {.ranks = 4, .environment = fake_gpus(2)});
    ASSERT_EQ(mixed.exit_code, 0) << mixed.errors;
    for (std::string const kinds : {" 1 CPU        ", " 1 GPU        ", " 1 GPU, 1 CPU "})
        EXPECT_EQ(count(mixed.errors, kinds), 2) << kinds << "\n" << mixed.errors; // a line a chunk
    example.run.out = (folder_ / "mixed-cpu").string();
    auto const alone = train(example, {.ranks = 4});
    ASSERT_EQ(alone.exit_code, 0) << alone.errors;
    EXPECT_EQ(count(alone.errors, "offload has no effect"), 1) << alone.errors;
    expect_equal_losses("mixed-cpu", "mixed-gpu");
}

TEST_F(GpuRuns, TheExecutableNeedsNoCudaLibrary) {
    auto const result = support::run_process({"ldd", support::program("evener").string()});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.output.find("libmpi"), std::string::npos) << result.output;
    for (char const* const library : {"libcuda", "libcudart", "libcublas", "libnccl"})
        EXPECT_EQ(result.output.find(library), std::string::npos) << result.output;
}

TEST_F(GpuRuns, WhereNoCudaLibraryIsFoundRanksTrainOnTheCpu) {
    ASSERT_EQ(train(job("cpu", job::Devices::cpu)).exit_code, 0);
    auto const result =
        train(job("hidden", job::Devices::automatic), {.ranks = 2, .environment = without_cuda()});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(count(result.errors, "hidden: libcuda.so.1\n"), 2) << result.errors;
    EXPECT_EQ(count(result.errors, "hidden: "), 2) << result.errors; // nothing else was wanted
    EXPECT_EQ(count(result.errors, "of GPU ranks"), 0) << result.errors;
    expect_equal_losses("cpu", "hidden");
}

TEST_F(GpuRuns, AGroupWithoutNcclExchangesThroughHostMemory) {
    ASSERT_EQ(train(job("cpu", job::Devices::cpu)).exit_code, 0);
    job::Job group = job("group", job::Devices::gpu);
    group.plan.groups = {even_group({0, 1}, layers())};
    auto environment = fake_gpus(2);
    environment.emplace_back("EVENER_HOSTCUDA_NCCL=missing");
    auto const result = train(group, {.ranks = 2, .environment = environment});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(count(result.errors, "group 0: by way of host memory (rank 0: "), 1) << result.errors;
    EXPECT_NE(result.errors.find("NCCL cannot be used, libnccl.so.2 ("), std::string::npos)
        << result.errors;
    expect_equal_losses("cpu", "group");
}

TEST_F(GpuRuns, MoreRanksThanGpusAreRefusedWhereTheJobWantsGpus) {
    auto const result =
        train(job("many", job::Devices::gpu), {.ranks = 3, .environment = fake_gpus(2)});
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_NE(result.errors.find("no GPU is left for rank 2"), std::string::npos) << result.errors;
    EXPECT_NE(result.errors.find("(3 ranks run there, this one sees 2 GPUs)"), std::string::npos)
        << result.errors;
}

TEST_F(GpuRuns, WithoutAPluginGpusAreAnErrorUnlessTheJobWantsTheCpu) {
    std::vector<std::string> const environment{"EVENER_DEVICE_PLUGIN=/no/such/plugin.so"};
    auto const refused =
        train(job("refused", job::Devices::automatic), {.environment = environment});
    EXPECT_EQ(refused.exit_code, 3) << refused.errors;
    EXPECT_NE(refused.errors.find("'/no/such/plugin.so' cannot be loaded ("), std::string::npos)
        << refused.errors;
    auto const without = train(job("without", job::Devices::cpu), {.environment = environment});
    EXPECT_EQ(without.exit_code, 0) << without.errors;
}

/// One group of one rank with a chunk per decoder layer, embedding or head, all levers pulled or
/// none.
job::Job in_chunks(job::Job job, bool levers) {
    program::Plan plan;
    plan.batch_size = job.train.batch_size;
    plan.microbatch_size = job.train.microbatch_size;
    plan.schedule = "breadth_first";
    plan.groups.push_back({.ranks = {core::RankId{0}}, .shares = {1}, .shard_weights = {1}});
    plan.groups[0].offload = {levers, levers, levers};
    for (std::int64_t layer = 0; layer < 2 + 2 * job.model.layers; ++layer)
        plan.chunks.push_back({core::GroupId{0}, {layer, layer + 1}, levers});
    plan.interleaved_updates = levers;
    job.optimizer.clip_norm = 0;
    job.train.on_nonfinite = job::OnNonfinite::report;
    return with_plan(job, plan);
}

/// MiB of rank 0's arena, from the words that refuse it.
double mebibytes_asked_for(std::string const& errors) {
    std::string const words = "rank 0 needs ";
    auto const at = errors.find(words);
    return at == std::string::npos ? 0 : std::stod(errors.substr(at + words.size()));
}

// Parameters, optimizer state and activations need 2.5 times what the device has.
TEST_F(GpuRuns, OffloadTrainsWhatTheDeviceCannotHold) {
    make_large();
    job::Job big = job("big", job::Devices::gpu, 2);
    big.optimizer.kind = job::OptimizerKind::adamw;
    big.optimizer.learning_rate = 0.01;
    constexpr int free_mib = 4; // the fake context takes 16
    auto environment = fake_gpus(1);
    environment.push_back(fmt::format("EVENER_HOSTCUDA_MEMORY_MIB={}", 16 + free_mib));
    auto const refused = train(in_chunks(big, false), {.environment = environment});
    EXPECT_EQ(refused.exit_code, 2) << refused.errors;
    EXPECT_GE(mebibytes_asked_for(refused.errors), 2.5 * free_mib) << refused.errors;
    EXPECT_NE(refused.errors.find(
                  fmt::format("MiB on 'host CPU as GPU' (it may have {}.0): weights ", free_mib)),
              std::string::npos)
        << refused.errors;
    EXPECT_TRUE(metrics(folder_ / "big", "loss").empty());

    auto const offloaded = train(in_chunks(big, true), {.environment = environment});
    ASSERT_EQ(offloaded.exit_code, 0) << offloaded.errors;
    job::Job cpu = in_chunks(big, false);
    cpu.run.out = (folder_ / "cpu").string();
    cpu.run.devices = job::Devices::cpu;
    ASSERT_EQ(train(cpu).exit_code, 0);
    expect_equal_losses("cpu", "big");
}

// A reduced gradient leaves when its group has reduced it; the members of a group with dealt microbatches
// end at different times, and the last may wait for a message of one that waits for the reduction.
TEST_F(GpuRuns, DealtMicrobatchesOffloadWhatTheirGroupReduces) {
    job::Job dealt = job("dealt", job::Devices::gpu, 3);
    dealt.train.batch_size = 9;
    dealt.train.microbatch_size = 1;
    program::Plan plan;
    plan.batch_size = 9;
    plan.schedule = "1f1b";
    std::int64_t const last = 2 * dealt.model.layers + 1;
    plan.groups.push_back({.ranks = {core::RankId{0}}, .shares = {1}, .shard_weights = {1}});
    plan.groups.push_back({.ranks = {core::RankId{1}, core::RankId{2}, core::RankId{3}},
                           .shares = {1, 1, 1},
                           .shard_weights = {1, 1, 1},
                           .dispatch = program::Dispatch::dealt});
    plan.chunks = {{core::GroupId{0}, {0, last}}, {core::GroupId{1}, {last, last + 1}}};
    std::map<std::int64_t, double> expected;
    for (bool const offload : {false, true}) {
        plan.groups[0].offload = plan.groups[1].offload = {false, offload, false};
        dealt.run.out = (folder_ / (offload ? "dealt-offload" : "dealt")).string();
        auto const environment = fake_gpus(4);
        auto const result = train(with_plan(dealt, plan), {.ranks = 4, .environment = environment});
        ASSERT_EQ(result.exit_code, 0) << result.errors;
        if (!offload)
            expected = metrics(dealt.run.out, "loss");
    }
    EXPECT_EQ(metrics(dealt.run.out, "loss"), expected);
    EXPECT_EQ(expected.size(), 3U);
}

TEST_F(GpuRuns, PinnedMemoryThatTheSystemRefusesIsSaidWithTheLimits) {
    make_large();
    job::Job pinned = in_chunks(job("pinned", job::Devices::gpu), true);
    auto environment = fake_gpus(1);
    environment.emplace_back("EVENER_HOSTCUDA_PINNED_MIB=2");
    auto const result = train(pinned, {.environment = environment});
    EXPECT_EQ(result.exit_code, 3) << result.errors;
    for (char const* const part :
         {"rank 0 cannot have ", " of pinned host memory, ", " for what is offloaded, ",
          "cudaErrorMemoryAllocation", "the lock limit 'ulimit -l' is ", "the node has ",
          "raise the limit, offload less, or use more ranks or nodes"})
        EXPECT_NE(result.errors.find(part), std::string::npos) << part << "\n" << result.errors;
}

TEST_F(GpuRuns, AnArenaThatTheDeviceCannotHoldIsRefusedWithTheNumbers) {
    job::Job big = job("big", job::Devices::gpu);
    big.model.vocabulary = 200'000;
    auto environment = fake_gpus(1);
    environment.emplace_back("EVENER_HOSTCUDA_MEMORY_MIB=48");
    auto const result = train(big, {.environment = environment});
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_NE(result.errors.find("rank 0 needs 117.7 MiB on 'host CPU as GPU' (it may have 32.0): "
                                 "weights 36.7, gradients "
                                 "36.7, shards 36.7, "),
              std::string::npos)
        << result.errors;
    EXPECT_NE(result.errors.find("; use 'plan.recompute', [plan.offload] (parameters, optimizer, "
                                 "activations), "),
              std::string::npos)
        << result.errors;
}

} // namespace
} // namespace evener::system_test
