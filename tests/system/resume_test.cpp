// SPDX-License-Identifier: Apache-2.0
// N steps, a new process, N steps: the same model as 2 N steps without a break.
#include "checkpoints/reader.hpp"
#include "checkpoints/store.hpp"
#include "checkpoints/writer.hpp"
#include "io/files.hpp"
#include "support/random_plan.hpp"
#include "support/temporary_folder.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

namespace evener::system_test {
namespace {

constexpr std::int64_t half = 4;

model::ModelConfig config() {
    model::ModelConfig config;
    config.vocabulary = 23;
    config.hidden_size = 12;
    config.decoder_layers = 2;
    config.heads = 2;
    config.kv_heads = 1;
    config.head_size = 4;
    config.ffn_size = 17;
    config.sequence_length = 7;
    config.tied_embeddings = true;
    return config;
}

program::Group group(std::vector<std::int64_t> const& ranks, std::vector<double> const& shares) {
    program::Group result;
    for (std::int64_t const rank : ranks)
        result.ranks.emplace_back(rank);
    result.shares = shares;
    result.shard_weights.assign(shares.size(), 1);
    return result;
}

program::Plan uneven_plan() {
    program::Plan plan;
    plan.groups = {group({0}, {1}), group({1, 2}, {2, 1})};
    plan.chunks = {{core::GroupId{0}, {0, 2}}, {core::GroupId{1}, {2, 6}}};
    plan.batch_size = 7;
    plan.microbatch_size = 3;
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

program::Plan other_plan() {
    program::Plan plan = uneven_plan();
    plan.groups = {group({0, 1}, {1, 1}), group({2}, {1}), group({3}, {1})};
    plan.chunks = {
        {core::GroupId{0}, {0, 3}}, {core::GroupId{1}, {3, 5}}, {core::GroupId{2}, {5, 6}}};
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

class Resume : public ::testing::Test {
  protected:
    void SetUp() override {
        // 60 samples and 7 a step: the run crosses the end of an epoch.
        write_tokens(folder_ / "tokens.bin", config().vocabulary, 60 * 7 + 1, 5);
        run(job("whole", 2 * half, uneven_plan()), 3);
    }

    job::Job job(std::string const& name, std::int64_t steps, program::Plan const& plan) const {
        job::Job result =
            with_plan(small_job(config(), folder_ / "tokens.bin", folder_ / name, steps), plan);
        result.optimizer.kind = job::OptimizerKind::adamw;
        result.optimizer.learning_rate = 0.01;
        result.optimizer.beta2 = 0.97;
        result.optimizer.schedule = job::Decay::cosine;
        result.optimizer.decay_steps = 2 * half;
        result.checkpoint.every = half;
        return result;
    }

    void run(job::Job const& job, int ranks) const {
        auto const result = train(job, {.ranks = ranks});
        ASSERT_EQ(result.exit_code, 0) << result.errors;
    }

    std::filesystem::path final_of(std::string const& name) const {
        return step_folder(folder_ / name, 2 * half);
    }

    support::TemporaryFolder folder_{"resume"};
};

TEST_F(Resume, EqualsTheUninterruptedRunToTheBitAfterAMove) {
    run(job("first", half, uneven_plan()), 3);
    std::filesystem::rename(folder_ / "first", folder_ / "moved");
    run(job("moved", 2 * half, uneven_plan()), 3);
    EXPECT_TRUE(same_checkpoint(final_of("whole"), final_of("moved")));
    EXPECT_EQ(metrics(folder_ / "whole", "loss"), metrics(folder_ / "moved", "loss"));
}

/// Copies a checkpoint to another run folder, with `change` made to its state or its tensors.
void copy_changed(
    std::filesystem::path const& from, std::filesystem::path const& out,
    std::function<void(checkpoints::TrainingState&)> const& change_state,
    std::function<void(std::string const& kind, std::vector<float>&)> const& change_tensor) {
    checkpoints::CheckpointReader reader{from.string()};
    checkpoints::Manifest const& manifest = reader.manifest();
    checkpoints::Description description{
        manifest.creator, manifest.state,          manifest.model,          manifest.kinds,
        manifest.tensors, reader.text("job.toml"), reader.text("plan.toml")};
    change_state(description.state);
    std::filesystem::create_directories(out);
    std::string const folder =
        checkpoints::begin(out.string(), manifest.state.step,
                           checkpoints::payload_bytes(manifest.tensors, manifest.kinds));
    checkpoints::SliceWriter writer{folder, 0};
    for (std::string const& kind : manifest.kinds)
        for (checkpoints::TensorInfo const& tensor : manifest.tensors) {
            std::vector<float> values(
                static_cast<std::size_t>(tensor.rows() * tensor.row_elements()));
            reader.read(kind, tensor.name, {0, tensor.rows()}, values.data());
            change_tensor(kind, values);
            writer.write({kind, tensor.name, tensor.shape, {0, tensor.rows()}, values.data()});
        }
    checkpoints::commit(out.string(), description, {writer.finish()});
}

// Negative control: with any one item of the state dropped the comparison fails, and with none it
// holds.
TEST_F(Resume, DiffersWhenOneItemOfTheStateIsDropped) {
    auto const keep_state = [](checkpoints::TrainingState&) {};
    auto const keep_tensor = [](std::string const&, std::vector<float>&) {};
    auto const ends_like_whole = [&](std::string const& name, auto const& change_state,
                                     auto const& change_tensor) {
        copy_changed(step_folder(folder_ / "whole", half), folder_ / name, change_state,
                     change_tensor);
        run(job(name, 2 * half, uneven_plan()), 3);
        Tensors const expected = tensors(final_of("whole"), "parameters");
        return tensors(final_of(name), "parameters") == expected;
    };
    EXPECT_TRUE(ends_like_whole("same", keep_state, keep_tensor));
    for (std::string const dropped : {"parameters", "moment1", "moment2"})
        EXPECT_FALSE(ends_like_whole("without-" + dropped, keep_state,
                                     [&](std::string const& kind, std::vector<float>& values) {
                                         if (kind == dropped)
                                             std::fill(values.begin(), values.end(), 0.0f);
                                     }))
            << dropped;
    EXPECT_FALSE(ends_like_whole(
        "without-samples", [](checkpoints::TrainingState& state) { state.samples_consumed = 0; },
        keep_tensor));
    EXPECT_FALSE(ends_like_whole(
        "without-skips", [](checkpoints::TrainingState& state) { state.nonfinite_steps = 1; },
        keep_tensor));
}

/// Two chunks per group in a V, the second group's microbatches dealt by name.
program::Plan folded_plan() {
    program::Plan plan = uneven_plan();
    plan.groups[1].dispatch = program::Dispatch::dealt;
    plan.groups[1].deal = {1, 0, 1};
    plan.chunks = {{core::GroupId{0}, {0, 1}},
                   {core::GroupId{1}, {1, 3}},
                   {core::GroupId{1}, {3, 5}},
                   {core::GroupId{0}, {5, 6}}};
    plan.schedule = "zb-v";
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

// Chunks, deal and schedule are those of the checkpoint.
TEST_F(Resume, GoesOnWithTheChunksTheDealAndTheScheduleOfTheCheckpoint) {
    run(job("folded", 2 * half, folded_plan()), 3);
    run(job("folded-half", half, folded_plan()), 3);
    run(job("folded-half", 2 * half, folded_plan()), 3);
    EXPECT_TRUE(same_checkpoint(final_of("folded"), final_of("folded-half")));
    for (char const* const file : {"/plan.toml", "/schedule.csv"})
        EXPECT_EQ(io::read_file((folder_ / "folded").string() + file),
                  io::read_file((folder_ / "folded-half").string() + file));
}

// What is computed again or offloaded changes no number, so that the job may decide on it anew, with
// the orders that the checkpoint has.
TEST_F(Resume, TakesTheLeversForMemoryOfTheJobAndTheOrdersOfTheCheckpoint) {
    program::Plan plan = folded_plan();
    plan.schedule = "auto";
    run(job("levers", half, plan), 3);
    std::string const orders = io::read_file((folder_ / "levers" / "schedule.csv").string());
    std::filesystem::copy(folder_ / "levers", folder_ / "plain",
                          std::filesystem::copy_options::recursive);
    run(job("plain", 2 * half, plan), 3);
    for (program::Chunk& chunk : plan.chunks)
        chunk.recompute = true;
    plan.groups[1].offload = {.optimizer = true};
    run(job("levers", 2 * half, plan), 3);
    EXPECT_TRUE(same_checkpoint(final_of("plain"), final_of("levers")));
    EXPECT_EQ(io::read_file((folder_ / "levers" / "schedule.csv").string()), orders);
    std::string const words = io::read_file((folder_ / "levers" / "plan.toml").string());
    EXPECT_NE(words.find("\nrecompute = true\n"), std::string::npos) << words;
    EXPECT_NE(words.find("\noffload = [\"optimizer\"]\n"), std::string::npos) << words;
}

// A search that measures may find another order the next time, and a file may be gone.
TEST_F(Resume, GoesOnWithTheOrdersOfASearchOrAFile) {
    for (std::string const name : {"auto", "greedy"}) {
        program::Plan plan = folded_plan();
        plan.schedule = name;
        run(job(name, half, plan), 3);
        checkpoints::CheckpointReader const saved{step_folder(folder_ / name, half).string()};
        EXPECT_TRUE(saved.has_text("schedule.csv"));
        std::string const orders = io::read_file((folder_ / name / "schedule.csv").string());
        job::Job of_file = job(name + "-file", half, plan);
        of_file.plan.schedule_file = (folder_ / "orders.csv").string();
        io::write_file_atomically(of_file.plan.schedule_file, orders);
        run(of_file, 3);
        std::filesystem::remove(of_file.plan.schedule_file);
        of_file.train.steps = 2 * half;
        run(of_file, 3);
        run(job(name, 2 * half, plan), 3);
        EXPECT_EQ(io::read_file((folder_ / name / "schedule.csv").string()), orders);
        EXPECT_EQ(io::read_file((folder_ / (name + "-file") / "schedule.csv").string()), orders);
        EXPECT_TRUE(same_checkpoint(final_of(name), final_of(name + "-file"))) << name;
    }
}

// Deals that a simulation chose are those of the checkpoint, until the batch changes.
TEST_F(Resume, KeepsTheDealsThatASimulationChose) {
    program::Plan plan = uneven_plan();
    plan.groups[1].dispatch = program::Dispatch::dealt;
    plan.schedule = "auto";
    run(job("deals", half, plan), 3);
    std::string const words = io::read_file((folder_ / "deals" / "plan.toml").string());
    EXPECT_EQ(words.find("dispatch = \"dealt\"\ndeal = []"), std::string::npos) << words;
    run(job("deals", half + 1, plan), 3);
    EXPECT_EQ(io::read_file((folder_ / "deals" / "plan.toml").string()), words);
    plan.batch_size = 9; // one more sequence to deal and another schedule
    plan.microbatch_size = 1;
    run(job("deals", half + 2, plan), 3);
    EXPECT_NE(io::read_file((folder_ / "deals" / "plan.toml").string()), words);
}

TEST_F(Resume, RefusesToLeaveNewerCheckpointsBehind) {
    job::Job back = job("whole", 2 * half, uneven_plan());
    back.checkpoint.resume = step_folder(folder_ / "whole", half).string();
    auto const result = train(back, {.ranks = 3});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.errors.find("holds checkpoints up to step 8"), std::string::npos)
        << result.errors;
}

TEST_F(Resume, OnAnotherPlanAgreesToRounding) {
    job::Job second = job("other", 2 * half, other_plan());
    second.checkpoint.resume = step_folder(folder_ / "whole", half).string();
    run(second, 4);
    auto const whole = metrics(folder_ / "whole", "loss");
    auto const other = metrics(folder_ / "other", "loss");
    ASSERT_EQ(other.size(), static_cast<std::size_t>(half));
    for (auto const& [step, loss] : other)
        EXPECT_NEAR(loss, whole.at(step), 1e-5 * std::abs(loss)) << "step " << step;
}

TEST_F(Resume, OnOtherRanksStopsOrPlansAnewAsTheJobSays) {
    run(job("ranks", half, uneven_plan()), 3);
    job::Job fewer = job("ranks", half + 2, uneven_plan());
    for (int const ranks : {2, 4}) {
        auto const stopped = train(fewer, {.ranks = ranks});
        EXPECT_EQ(stopped.exit_code, 2) << stopped.errors;
        EXPECT_NE(stopped.errors.find("set 'plan.on_mismatch' to \"replan\""), std::string::npos)
            << stopped.errors;
    }
    fewer.plan.on_mismatch = job::OnMismatch::replan;
    auto const resumed = train(fewer, {.ranks = 2});
    EXPECT_EQ(resumed.exit_code, 0) << resumed.errors;
    EXPECT_NE(resumed.errors.find("'plan.groups' are for 3 ranks, this job has 2: planning anew"),
              std::string::npos)
        << resumed.errors;
    EXPECT_NE(resumed.errors.find(fmt::format("(step {})", half)), std::string::npos);
    auto const whole = metrics(folder_ / "whole", "loss");
    auto const losses = metrics(folder_ / "ranks", "loss");
    ASSERT_EQ(losses.size(), static_cast<std::size_t>(half + 2));
    for (auto const& [step, loss] : losses)
        EXPECT_NEAR(loss, whole.at(step), 1e-5 * std::abs(loss)) << "step " << step;
}

TEST_F(Resume, RefusesACheckpointOfAnotherModelWithTheDifferences) {
    job::Job second = job("wrong", 2 * half, uneven_plan());
    second.model.ffn_size = 19;
    second.checkpoint.resume = final_of("whole").string();
    auto const result = train(second, {.ranks = 3});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.errors.find("ffn_size is 17 in the checkpoint, 19 in the job"),
              std::string::npos)
        << result.errors;
}

} // namespace
} // namespace evener::system_test
