// SPDX-License-Identifier: Apache-2.0
// Profiles, memory limits and the exchange of the schedule of a running job.
#include "io/files.hpp"
#include "job/print.hpp"
#include "planner/profile_file.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <filesystem>

namespace evener::system_test {
namespace {

model::ModelConfig small_config() {
    model::ModelConfig config;
    config.vocabulary = 19;
    config.hidden_size = 16;
    config.decoder_layers = 4;
    config.heads = config.kv_heads = 2;
    config.head_size = 8;
    config.ffn_size = 24;
    config.sequence_length = 8;
    return config;
}

class Schedules : public testing::Test {
  protected:
    job::Job make_job(std::string const& name, std::int64_t steps) const {
        job::Job job =
            small_job(small_config(), folder_.path() / "tokens.bin", folder_.path() / name, steps);
        job.train.batch_size = 8;
        job.train.microbatch_size = 1;
        return job;
    }
    void SetUp() override { write_tokens(folder_.path() / "tokens.bin", 19, 4000, 5); }

    support::ProcessResult evener(std::vector<std::string> const& arguments, int ranks) const {
        std::vector<std::string> command{support::program("evener").string()};
        command.insert(command.end(), arguments.begin(), arguments.end());
        if (ranks > 1)
            command = support::under_mpirun(ranks, command);
        return support::run_process(command, {.environment = {"OMP_NUM_THREADS=1"}});
    }
    std::string write(job::Job const& job, std::string const& name) const {
        std::string const file = (folder_.path() / name).string();
        io::write_file_atomically(file, job::print_job(job));
        return file;
    }

    support::TemporaryFolder folder_;
};

TEST_F(Schedules, AreSearchedByTheProfileOfACalibration) {
    job::Job job = make_job("auto", 3);
    job.plan.schedule = job::Schedule::automatic;
    job.plan.chunks_per_group = 2;
    job.plan.placement = job::Placement::v;
    std::string const file = write(job, "auto.toml");
    std::string const profile = (folder_.path() / "p.json").string();

    auto const measured = evener({"profile", file, "--steps", "2", "--output", profile}, 2);
    ASSERT_EQ(measured.exit_code, 0) << measured.errors;
    planner::Profile const parsed = planner::parse_profile(io::read_file(profile), profile);
    ASSERT_EQ(parsed.ranks.size(), 2u);
    for (planner::RankProfile const& rank : parsed.ranks) { // only one of them had the head
        EXPECT_GT(rank.layers.at("head").forward + rank.layers.at("head").backward_input, 0);
        EXPECT_GT(rank.layers.at("head").backward, 0);
    }
    EXPECT_EQ(parsed.source, "4 steps under 1f1b"); // two with the backward whole, two in halves

    auto const result = train(job, {.ranks = 2, .settings = {"plan.profile=" + profile}});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.errors.find("schedule \"auto\":"), std::string::npos) << result.errors;
    EXPECT_NE(result.errors.find(profile + " (4 steps under 1f1b)"), std::string::npos)
        << result.errors;
}

TEST_F(Schedules, RefuseAProfileOfAnotherJob) {
    job::Job const job = make_job("other", 1);
    std::string const file = write(job, "other.toml");
    std::string const profile = (folder_.path() / "one.json").string();
    ASSERT_EQ(evener({"profile", file, "--steps", "1", "--output", profile}, 1).exit_code, 0);
    auto const result = train(job, {.ranks = 2, .settings = {"plan.profile=" + profile}});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.errors.find("it is for 1 ranks (the job has 2)"), std::string::npos)
        << result.errors;
    auto const shorter =
        train(job, {.settings = {"plan.profile=" + profile, "model.sequence_length=4"}});
    EXPECT_EQ(shorter.exit_code, 2);
    EXPECT_NE(shorter.errors.find("its model has sequence_length 8 (the job's has 4)"),
              std::string::npos)
        << shorter.errors;
    auto const missing = train(job, {.ranks = 2, .settings = {"plan.profile=nowhere.json"}});
    EXPECT_EQ(missing.exit_code, 2);
    EXPECT_NE(missing.errors.find("'plan.profile' cannot be read"), std::string::npos)
        << missing.errors;
}

TEST_F(Schedules, MustFitTheMemoryLimit) {
    job::Job job = make_job("memory", 2);
    job.plan.schedule = job::Schedule::gpipe;
    auto const refused = train(job, {.ranks = 2, .settings = {"plan.memory_gib=0.0001"}});
    EXPECT_EQ(refused.exit_code, 2);
    EXPECT_NE(refused.errors.find("rank 0 needs"), std::string::npos) << refused.errors;
    EXPECT_EQ(train(job, {.ranks = 2, .settings = {"plan.memory_gib=1"}}).exit_code, 0);
}

// Whatever the limit: where some named schedule fits, so does what the search takes.
TEST_F(Schedules, AreSearchedWithinTheMemoryLimit) {
    job::Job const job = make_job("limits", 1);
    std::string const file = write(job, "limits.toml");
    auto const fits = [&](std::string const& schedule, double gib) {
        return evener({"plan", file, "--ranks", "3", "--set", "plan.schedule=" + schedule, "--set",
                       fmt::format("plan.memory_gib={}", gib)},
                      1)
                   .exit_code == 0;
    };
    int tight = 0;
    for (double gib = 80e-6; gib < 400e-6; gib += 20e-6) {
        bool const some = fits("1f1b", gib) || fits("zb-h1", gib) || fits("gpipe", gib);
        tight += some && !fits("gpipe", gib);
        if (some) {
            EXPECT_TRUE(fits("auto", gib)) << gib;
            EXPECT_TRUE(fits("greedy", gib)) << gib;
        }
    }
    EXPECT_GT(tight, 0);
}

/// Starts a job, sends SIGUSR2 to mpirun when the first step is in the metrics, and puts `then` in
/// the schedule's place before. Returns stderr.
std::string run_with_signal(std::string const& job, std::string const& schedule,
                            std::string const& then, std::string const& metrics) {
    // The shell waits for the step, at most 60 s.
    std::string const script = fmt::format(
        "{} & job=$!; for i in $(seq 600); do [ -s {} ] && break; sleep 0.1; done; cp {} {}; "
        "kill -USR2 $job; wait $job",
        fmt::join(support::under_mpirun(2, {support::program("evener").string(), "train", job}),
                  " "),
        metrics, then, schedule);
    auto const result =
        support::run_process({"bash", "-c", script}, {.environment = {"OMP_NUM_THREADS=1"}});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    return result.errors;
}

TEST_F(Schedules, AreExchangedOnASignal) {
    job::Job job = make_job("source", 1);
    job.plan.schedule = job::Schedule::gpipe;
    ASSERT_EQ(train(job, {.ranks = 2}).exit_code, 0);
    auto const gpipe = folder_.path() / "source" / "schedule.csv";
    job = make_job("start", 1);
    ASSERT_EQ(train(job, {.ranks = 2}).exit_code, 0);
    auto const file = folder_.path() / "schedule.csv";
    std::filesystem::copy_file(folder_.path() / "start" / "schedule.csv", file);

    job = make_job("run", 400);
    job.checkpoint.every = 0;
    job.plan.schedule_file = file.string();
    std::string const errors =
        run_with_signal(write(job, "run.toml"), file.string(), gpipe.string(),
                        (folder_.path() / "run" / "metrics.jsonl").string());
    EXPECT_NE(errors.find("schedule exchanged for"), std::string::npos) << errors;
    EXPECT_EQ(io::read_file((folder_.path() / "run" / "schedule.csv").string()),
              io::read_file(gpipe.string()));

    // The order of work changes no number: GPipe adds its gradients in the same order as 1F1B.
    job = make_job("plain", 400);
    ASSERT_EQ(train(job, {.ranks = 2}).exit_code, 0);
    EXPECT_EQ(metrics(folder_.path() / "run", "loss"), metrics(folder_.path() / "plain", "loss"));
}

TEST_F(Schedules, StayWhenTheNewOneIsWrong) {
    job::Job job = make_job("start", 1);
    ASSERT_EQ(train(job, {.ranks = 2}).exit_code, 0);
    auto const file = folder_.path() / "schedule.csv";
    std::filesystem::copy_file(folder_.path() / "start" / "schedule.csv", file);
    auto const broken = folder_.path() / "broken.csv";
    io::write_file_atomically(broken.string(), "F0.0,F0.x\n");
    job = make_job("run", 400);
    job.plan.schedule_file = file.string();
    std::string const errors =
        run_with_signal(write(job, "run.toml"), file.string(), broken.string(),
                        (folder_.path() / "run" / "metrics.jsonl").string());
    EXPECT_NE(errors.find("the schedule stays as it was"), std::string::npos) << errors;
    EXPECT_EQ(metrics(folder_.path() / "run", "loss").size(), 400u);
}

} // namespace
} // namespace evener::system_test
