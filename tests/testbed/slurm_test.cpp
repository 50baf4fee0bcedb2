// SPDX-License-Identifier: Apache-2.0

// The templates of slurm/ under a real Slurm, submitted as a user does.

#include "io/files.hpp"
#include "support/paths.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "testbed/cluster.hpp"
#include "testbed/training.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

namespace evener::testbed {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr std::int64_t steps = 4;

class Slurm : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        if (!missing({"hosts", "slurm"}).empty())
            return;
        write_training_data(folder());
        cluster_ = std::make_unique<Cluster>("slurm", std::vector<std::string>{"a:2"});
        cluster_->expect({"slurm-up", "a1:cpus=2,mem=2000,gpu=h100*4,feature=fast"});
    }
    static void TearDownTestSuite() { cluster_.reset(); }

    void SetUp() override {
        if (!cluster_)
            GTEST_SKIP() << missing({"hosts", "slurm"});
    }

    static std::filesystem::path folder() {
        static support::TemporaryFolder const folder{"slurm"};
        return folder.path();
    }

    struct Ended {
        std::string state; ///< "COMPLETED 0:0"
        std::string log;
    };

    /// sbatch with such options and variables; `script` is one of slurm/, or a path. Its number.
    static std::string start(std::filesystem::path const& script,
                             std::vector<std::string> const& options,
                             std::string const& variables) {
        std::vector<std::string> words{"on-host", "dca",    "cd",        folder().string(),
                                       "&&",      "sbatch", "--parsable"};
        words.insert(words.end(), options.begin(), options.end());
        words.push_back("--export=ALL,RANKS_PER_NODE=2,CORES_PER_RANK=1,EVENER=" +
                        support::program("evener").string() + "," + variables);
        words.push_back((support::source_root() / "slurm" / script).string());
        std::string job = cluster_->expect(words);
        job.pop_back(); // the end of its line
        return job;
    }

    /// Until the job has ended.
    static Ended wait(std::string const& job, int seconds = 60) {
        std::string const state = cluster_->expect({"slurm-wait", job, std::to_string(seconds)},
                                                   std::chrono::seconds{seconds + 10});
        return {state, io::read_file((folder() / ("evener-" + job + ".log")).string())};
    }

    static Ended submit(std::string const& script, std::vector<std::string> const& options,
                        std::string const& variables) {
        return wait(start(script, options, variables));
    }

    static std::string written(job::Job const& job) {
        return system_test::train_command(job).back(); // the job's file
    }

    /// Waits until the run has trained that many steps.
    static void wait_for_steps(std::filesystem::path const& run, std::size_t steps) {
        auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{60};
        while (!std::filesystem::exists(run / "metrics.jsonl") ||
               system_test::metrics(run, "loss").size() < steps) {
            ASSERT_LT(std::chrono::steady_clock::now(), deadline) << run;
            std::this_thread::sleep_for(std::chrono::milliseconds{50});
        }
    }

    inline static std::unique_ptr<Cluster> cluster_;
    std::vector<std::string> const two_by_two_{"--nodes=1-2", "--mincpus=2"};
};

TEST_F(Slurm, ShowsTheNodesThatWereAskedFor) {
    EXPECT_EQ(cluster_->expect({"on-host", "dca", "sinfo -h -p all -N -o '%N %c %m %f %G %t'"}),
              "a1 2 2000 sitea,fast gpu:h100:4 idle\na2 2 2000 sitea (null) idle\n");
    EXPECT_EQ(
        cluster_->expect({"on-host", "dca", "srun --gres=gpu:2 printenv CUDA_VISIBLE_DEVICES"}),
        "0,1\n");
}

// --nodes=1-2 gets both nodes: four ranks, as many as the plan wants.
TEST_F(Slurm, TrainsByTheTemplateToTheBitsOfMpirunOnOneHost) {
    auto const alone = system_test::train(training_job(folder(), "alone", steps), {.ranks = 4});
    ASSERT_EQ(alone.exit_code, 0) << alone.errors;
    Ended const ended = submit("evener.sbatch", two_by_two_,
                               "JOB=" + written(training_job(folder(), "slurm", steps)));
    EXPECT_EQ(ended.state, "COMPLETED 0:0\n") << ended.log;
    EXPECT_THAT(ended.log, HasSubstr("4 ranks on 2 hosts"));
    EXPECT_THAT(ended.log, Not(HasSubstr("warn")));
    expect_same_run(folder() / "alone", folder() / "slurm", steps);
}

TEST_F(Slurm, AMistakeInTheJobEndsItBeforeSrun) {
    job::Job job = training_job(folder(), "mistaken", steps);
    job.train.batch_size = 0;
    Ended const ended = submit("evener.sbatch", two_by_two_, "JOB=" + written(job));
    EXPECT_EQ(ended.state, "FAILED 2:0\n") << ended.log;
    EXPECT_THAT(ended.log, HasSubstr("mistaken.toml:"));
    EXPECT_THAT(ended.log, Not(HasSubstr("srun")));
}

TEST_F(Slurm, WithoutPmixTheJobStopsWithTheHint) {
    Ended const ended = submit("evener.sbatch", two_by_two_,
                               "MPI=none,JOB=" + written(training_job(folder(), "none", steps)));
    EXPECT_THAT(ended.state, HasSubstr("FAILED")) << ended.log;
    EXPECT_THAT(ended.log, HasSubstr("use srun --mpi=pmix"));
    EXPECT_FALSE(std::filesystem::exists(folder() / "none/metrics.jsonl"));
}

// The script gets the signal that Slurm sends before the limit, which comes from scancel here, so that
// the test need not wait for it.
TEST_F(Slurm, AStoppedJobSavesIsRequeuedAndEndsWithTheSameLosses) {
    constexpr std::int64_t many = 120;
    auto const alone = system_test::train(training_job(folder(), "whole", many), {.ranks = 4});
    ASSERT_EQ(alone.exit_code, 0) << alone.errors;
    job::Job const job = training_job(folder(), "stopped", many);
    std::string const number = start("evener.sbatch", two_by_two_, "JOB=" + written(job));
    wait_for_steps(job.run.out, 3);
    cluster_->expect({"on-host", "dca", "scancel", "--batch", "--signal=USR1", number});
    Ended const ended = wait(number);
    EXPECT_EQ(ended.state, "COMPLETED 0:0 after 1 restarts\n") << ended.log;
    EXPECT_THAT(ended.log, HasSubstr("stopped with exit code 75: requeued, to resume from 'step-"));
    EXPECT_THAT(ended.log, HasSubstr("resuming from"));
    expect_same_run(folder() / "whole", job.run.out, many);
}

TEST_F(Slurm, AHeterogeneousJobTrainsInOneWorld) {
    job::Job const job = training_job(folder(), "het", steps);
    std::string const script = (folder() / "het.sbatch").string();
    auto const made =
        support::run_process({support::program("evener").string(), "template", "slurm", "--kind",
                              "hetjob", "--nodes", "1", "--ntasks-per-node", "2", "--cpus-per-task",
                              "1", "--job", written(job), "--output", script});
    ASSERT_EQ(made.exit_code, 0) << made.errors;
    Ended const ended = submit(script, {}, "A=b");
    EXPECT_EQ(ended.state, "COMPLETED 0:0\n") << ended.log;
    EXPECT_THAT(ended.log, HasSubstr("4 ranks on 2 hosts"));
    auto const alone = system_test::train(training_job(folder(), "het-alone", steps), {.ranks = 4});
    ASSERT_EQ(alone.exit_code, 0) << alone.errors;
    expect_same_run(folder() / "het-alone", job.run.out, steps);
}

TEST_F(Slurm, MpirunTrainsToo) {
    job::Job const job = training_job(folder(), "mpirun", steps);
    Ended const ended = submit("mpirun.sbatch", two_by_two_, "JOB=" + written(job));
    EXPECT_EQ(ended.state, "COMPLETED 0:0\n") << ended.log;
    EXPECT_THAT(ended.log, HasSubstr("4 ranks on 2 hosts"));
}

class SlurmFull : public Slurm {
  protected:
    void SetUp() override {
        Slurm::SetUp();
        if (support::size() != support::Size::full)
            GTEST_SKIP() << "takes a minute, so only with EVENER_TEST_SIZE=full";
    }
};

// Slurm looks at limits every 30 s and sends the signal up to a minute early, so at once here.
TEST_F(SlurmFull, AJobAtItsLimitIsRequeuedUntilItIsDone) {
    constexpr std::int64_t many = 2500;
    auto const alone = system_test::train(training_job(folder(), "unlimited", many), {.ranks = 4});
    ASSERT_EQ(alone.exit_code, 0) << alone.errors;
    job::Job const job = training_job(folder(), "limited", many);
    std::vector<std::string> options = two_by_two_;
    options.insert(options.end(), {"--time=1", "--signal=B:USR1@50"});
    Ended const ended = wait(start("evener.sbatch", options, "JOB=" + written(job)), 300);
    EXPECT_THAT(ended.state, HasSubstr("COMPLETED 0:0 after ")) << ended.log;
    EXPECT_THAT(ended.log, HasSubstr("stopped with exit code 75: requeued"));
    expect_same_run(folder() / "unlimited", job.run.out, many);
}

TEST_F(SlurmFull, AJobThatGetsNowhereStopsAfterSoManyRestarts) {
    job::Job job = training_job(folder(), "nowhere", steps);
    job.data.train = {(folder() / "absent.bin").string()};
    Ended const ended = wait(
        start("evener.sbatch", two_by_two_, "RESTARTS=2,REQUEUE_CODES=75:5,JOB=" + written(job)),
        120);
    EXPECT_EQ(ended.state, "FAILED 5:0 after 2 restarts\n") << ended.log;
    EXPECT_THAT(ended.log, HasSubstr("2 restarts brought nothing newer than 'nothing'"));
}

// Last in this file: the death of a2. Ranks on a1 may wait for those on a2 until Slurm finds it down and
// requeues the job; with the node that is left it has two ranks instead of four.
TEST_F(SlurmFull, AJobWhoseNodeDiesResumesOnTheOthersWithAnotherPlan) {
    constexpr std::int64_t many = 1200;
    job::Job job = training_job(folder(), "bereft", many);
    job.plan = {};
    job.checkpoint.every = 20;
    std::string const number = start("evener.sbatch", two_by_two_, "JOB=" + written(job));
    wait_for_steps(job.run.out, 50);
    cluster_->expect({"host-kill", "a2"});
    Ended const ended = wait(number, 200);
    cluster_->expect({"host-revive", "a2"});
    EXPECT_EQ(ended.state, "COMPLETED 0:0 after 1 restarts\n") << ended.log;
    EXPECT_THAT(ended.log, HasSubstr("resuming from"));
    EXPECT_THAT(ended.log, HasSubstr("the checkpoint's plan is for 4 ranks, this job has 2"));
    EXPECT_EQ(system_test::metrics(job.run.out, "loss").size(), static_cast<std::size_t>(many));
}

} // namespace
} // namespace evener::testbed
