// SPDX-License-Identifier: Apache-2.0
// Jobs that are asked to end early, by a signal or a time limit: they save, end with code 75, and the
// same command goes on as if they had never stopped.
#include "checkpoints/store.hpp"
#include "io/files.hpp"
#include "job/print.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace evener::system_test {
namespace {

constexpr std::int64_t endless = 1'000'000; // steps
constexpr int resumable = 75;

class Ending : public testing::Test {
  protected:
    void SetUp() override { write_tokens(folder_ / "tokens.bin", 19, 4000, 5); }

    job::Job make_job(std::string const& name, std::int64_t steps = endless) const {
        job::Job job = small_job(config_, folder_ / "tokens.bin", folder_ / name, steps);
        job.train.batch_size = 4;
        job.train.microbatch_size = 1;
        job.log.step_every = 1000;
        return job;
    }

    /// Starts the job on two ranks, or on one without mpirun, waits for its third step and runs
    /// `then`, in which $job is what was started and $ranks are the ranks' processes.
    support::ProcessResult interrupted(job::Job const& job, std::string const& then,
                                       int ranks = 2) const {
        std::vector<std::string> command = train_command(job);
        if (ranks > 1)
            command = support::under_mpirun(ranks, command);
        return script(
            fmt::format("{} & job=$!\n"
                        "for i in $(seq 600); do [ \"$(cat {}/metrics.jsonl 2>/dev/null | wc -l)\" "
                        "-ge 3 ] && break; sleep 0.05; done\n"
                        "ranks=$(pgrep -P $job)\n{}\n",
                        fmt::join(command, " "), job.run.out, then));
    }

    support::ProcessResult script(std::string const& text) const {
        return support::run_process({"bash", "-c", text}, {.folder = folder_.path(),
                                                           .environment = {"OMP_NUM_THREADS=1"},
                                                           .timeout = std::chrono::seconds{60}});
    }

    /// Newest checkpoint; -1: none.
    std::int64_t saved_step(std::string const& name) const {
        auto const newest =
            checkpoints::find_newest_valid((folder_ / name).string(), checkpoints::Depth::hashes);
        return newest ? newest->manifest.state.step : -1;
    }

    /// The same command again, `more` steps on, is the same as steps without a break.
    void expect_resumes(job::Job job, std::int64_t more, int ranks = 2) const {
        std::string const name = std::filesystem::path{job.run.out}.filename().string();
        std::int64_t const step = saved_step(name);
        ASSERT_GT(step, 0);
        job.train.steps = step + more;
        job.run.time_limit.clear();
        auto const resumed = train(job, {.ranks = ranks});
        ASSERT_EQ(resumed.exit_code, 0) << resumed.errors;
        EXPECT_NE(resumed.errors.find(fmt::format("(step {})", step)), std::string::npos)
            << resumed.errors;
        job::Job whole = job;
        whole.run.out = (folder_ / "whole").string();
        ASSERT_EQ(train(whole, {.ranks = ranks}).exit_code, 0);
        EXPECT_TRUE(same_checkpoint(step_folder(job.run.out, job.train.steps),
                                    step_folder(whole.run.out, job.train.steps)));
        EXPECT_EQ(metrics(job.run.out, "loss"), metrics(whole.run.out, "loss"));
    }

    support::TemporaryFolder folder_{"ending"};
    model::ModelConfig const config_ = tiny_config();
};

bool says(support::ProcessResult const& result, std::string const& words) {
    return result.errors.find(words) != std::string::npos;
}

TEST_F(Ending, OnASignalToTheLauncherSavesAndGoesOnToTheBit) {
    job::Job const job = make_job("run");
    auto const result = interrupted(job, "kill -USR1 $job; wait $job");
    EXPECT_EQ(result.exit_code, resumable) << result.errors;
    EXPECT_TRUE(says(result, "stopped early at step")) << result.errors;
    EXPECT_TRUE(says(result, "the same command goes on from there")) << result.errors;
    EXPECT_TRUE(std::filesystem::exists(folder_ / "run/latest"));
    expect_resumes(job, 7);
}

TEST_F(Ending, OnASignalToOneRankEndsAllOfThem) {
    for (char const* const rank : {"head", "tail"}) {
        job::Job const job = make_job(rank);
        auto const result = interrupted(
            job, fmt::format("kill -USR1 $(echo \"$ranks\" | {} -n 1); wait $job", rank));
        EXPECT_EQ(result.exit_code, resumable) << result.errors;
        EXPECT_GT(saved_step(rank), 0);
    }
}

TEST_F(Ending, OnOneTerminationSavesOnTwoDies) {
    for (std::string const signal : {"TERM", "INT"}) { // INT is Ctrl-C where there is no mpirun
        auto const once = interrupted(make_job(signal), "kill -" + signal + " $job; wait $job", 1);
        EXPECT_EQ(once.exit_code, resumable) << once.errors;
        EXPECT_GT(saved_step(signal), 0);
    }

    // Steps of many seconds: the first signal meets no step's end.
    job::Job const job = make_job("twice");
    auto const twice = script(
        fmt::format("EVENER_RANDOM_DELAYS=1:3000000 {} & job=$!\n"
                    "for i in $(seq 600); do [ -s {}/schedule.csv ] && break; sleep 0.05; done\n"
                    "sleep 1; kill -TERM $job; sleep 0.3; kill -TERM $job && wait $job",
                    fmt::join(train_command(job), " "), job.run.out));
    EXPECT_EQ(twice.exit_code, 128 + 15) << twice.errors;
    EXPECT_EQ(saved_step("twice"), -1);
}

TEST_F(Ending, DuringAValidationEndsBehindTheNextStep) {
    job::Job job = make_job("run");
    job.data.validation = job.data.train;
    job.train.validate_every = 3;
    job.train.validation_batches = 50;
    auto const result = interrupted(job, "kill -USR1 $job; wait $job");
    EXPECT_EQ(result.exit_code, resumable) << result.errors;
    EXPECT_GT(saved_step("run"), 0);
    expect_resumes(job, 4);
}

TEST_F(Ending, WhileLoadingEndsBeforeTheFirstStep) {
    job::Job const job = make_job("run");
    // As soon as the signal is caught, which is before MPI starts.
    auto const result = script(fmt::format(
        "{} & job=$!\n"
        "for i in $(seq 1000); do caught=$(awk '/SigCgt/{{print $2}}' /proc/$job/status)\n"
        "(( 0x$caught & 0x200 )) && break; sleep 0.01; done\n"
        "kill -USR1 $job; wait $job",
        fmt::join(train_command(job), " ")));
    EXPECT_EQ(result.exit_code, resumable) << result.errors;
    EXPECT_TRUE(says(result, "stopped early before step 1 of")) << result.errors;
    EXPECT_EQ(saved_step("run"), -1);
}

TEST_F(Ending, SavesNoStepTwice) {
    job::Job job = make_job("run");
    job.checkpoint.every = 1;
    auto const result = interrupted(job, "kill -USR1 $job; wait $job");
    EXPECT_EQ(result.exit_code, resumable) << result.errors;
    std::string const line =
        fmt::format("/{} in", checkpoints::step_folder_name(saved_step("run")));
    std::size_t const first = result.errors.find(line);
    ASSERT_NE(first, std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find(line, first + 1), std::string::npos) << result.errors;
}

TEST_F(Ending, InTimeForTheTimeLimit) {
    job::Job job = make_job("run");
    job.run.time_limit = "4";
    auto const begin = std::chrono::steady_clock::now();
    auto const result = train(job, {.ranks = 2});
    EXPECT_EQ(result.exit_code, resumable) << result.errors;
    EXPECT_TRUE(says(result, "the time limit ends in ")) << result.errors;
    EXPECT_TRUE(says(result, "saving and stopping at step ")) << result.errors;
    EXPECT_GT(saved_step("run"), 0);
    // The machine may be busy; without the limit it would train for minutes.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds{30});
    expect_resumes(job, 3);
}

TEST_F(Ending, IsNotEarlyAtTheLastStep) {
    job::Job job = make_job("run", 5);
    job.run.time_limit = "1:00:00";
    auto const result = train(job);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_FALSE(says(result, "stopped early")) << result.errors;
    // Everything is done: nothing is left to stop.
    EXPECT_EQ(train(job).exit_code, 0);
}

} // namespace
} // namespace evener::system_test
