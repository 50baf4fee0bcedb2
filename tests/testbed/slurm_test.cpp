// SPDX-License-Identifier: Apache-2.0

// The templates of slurm/ under a real Slurm, submitted as a user does.

#include "io/files.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include "testbed/cluster.hpp"
#include "testbed/training.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

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

    /// sbatch of slurm/`script` with such options and variables, until the job has ended.
    static Ended submit(std::string const& script, std::vector<std::string> const& options,
                        std::string const& variables) {
        std::vector<std::string> words{"on-host", "dca",    "cd",        folder().string(),
                                       "&&",      "sbatch", "--parsable"};
        words.insert(words.end(), options.begin(), options.end());
        words.push_back("--export=ALL,EVENER=" + support::program("evener").string() + "," +
                        variables);
        words.push_back((support::source_root() / "slurm" / script).string());
        std::string job = cluster_->expect(words);
        job.pop_back(); // the end of its line
        std::string const state = cluster_->expect({"slurm-wait", job});
        return {state, io::read_file((folder() / ("evener-" + job + ".log")).string())};
    }

    static std::string written(job::Job const& job) {
        return system_test::train_command(job).back(); // the job's file
    }

    inline static std::unique_ptr<Cluster> cluster_;
    std::vector<std::string> const two_by_two_{"--nodes=1-2", "--ntasks-per-node=2",
                                               "--cpus-per-task=1"};
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

} // namespace
} // namespace evener::testbed
