// SPDX-License-Identifier: Apache-2.0

// Two sites that share no files: only rank 0's has the data and the run folder.

#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "testbed/cluster.hpp"
#include "testbed/training.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <memory>

namespace evener::testbed {
namespace {

using testing::HasSubstr;

constexpr std::int64_t steps = 6;

class Sites : public testing::Test {
  protected:
    static void SetUpTestSuite() {
        if (!missing({"hosts", "wan"}).empty())
            return;
        write_training_data(folder());
        cluster_ = std::make_unique<Cluster>("sites", std::vector<std::string>{"a:1", "b:1"}, 2);
        cluster_->expect({"wan-up", "a", "b", "delay_ms=1", "rate_mbit=800"});
        cluster_->expect({"site-own", "b", folder().string()});
    }
    static void TearDownTestSuite() { cluster_.reset(); }

    void SetUp() override {
        if (!cluster_)
            GTEST_SKIP() << missing({"hosts", "wan"});
    }

    static std::filesystem::path folder() {
        static support::TemporaryFolder const folder{"sites"};
        return folder.path();
    }

    /// The same place as the hosts of site b see it.
    static std::filesystem::path folder_of_b() {
        return cluster_->state() / ("own-b" + folder().string());
    }

    static job::Job job(std::string const& name, std::int64_t last_step) {
        job::Job job = training_job(folder(), name, last_step);
        job.data.validation = job.data.train;
        job.train.validate_every = 3;
        job.train.validation_batches = 2;
        job.checkpoint.every = 3;
        return job;
    }

    /// The job on one host, once.
    static void train_alone() {
        if (std::filesystem::exists(folder() / "alone"))
            return;
        auto const result = system_test::train(job("alone", steps), {.ranks = 4});
        ASSERT_EQ(result.exit_code, 0) << result.errors;
    }

    static support::ProcessResult train(std::string const& hosts, job::Job const& job) {
        std::vector<std::string> words{"mpirun-hosts", "--host", hosts, "-n", "4"};
        auto const command = system_test::train_command(job);
        words.insert(words.end(), command.begin(), command.end());
        return cluster_->script(words);
    }

    /// Losses of the validations by step.
    static std::map<std::int64_t, double> validated(std::filesystem::path const& run) {
        auto losses = system_test::metrics(run, "val_loss");
        std::erase_if(losses, [](auto const& loss) { return std::isnan(loss.second); });
        EXPECT_EQ(losses.size(), static_cast<std::size_t>(steps / 3)) << run;
        return losses;
    }

    static void expect_same(std::string const& name) {
        expect_same_run(folder() / "alone", folder() / name, steps);
        EXPECT_EQ(validated(folder() / "alone"), validated(folder() / name));
    }

    static std::unique_ptr<Cluster> cluster_;
};

std::unique_ptr<Cluster> Sites::cluster_;

// The ranks of b, the second group, hold the head: they read targets, and validate.
TEST_F(Sites, TrainSaveAndResumeWithTheFilesOfOne) {
    train_alone();
    auto const first = train("a1:2,b1:2", job("apart", 3));
    ASSERT_EQ(first.exit_code, 0) << first.errors;
    EXPECT_THAT(first.errors, HasSubstr("ranks 2,3 (b1) do not share the run folder"));
    EXPECT_THAT(first.errors, HasSubstr("ranks 2,3 (b1) do not see the same data as rank 0"));
    auto const second = train("a1:2,b1:2", job("apart", steps));
    ASSERT_EQ(second.exit_code, 0) << second.errors;
    EXPECT_THAT(second.errors, HasSubstr("(step 3)"));
    expect_same("apart");
    EXPECT_TRUE(std::filesystem::is_empty(folder_of_b())) << "something was written at site b";
}

// Data of the same name and size, and other tokens: training on them would go unnoticed.
TEST_F(Sites, TakeNoOtherDataOfTheSameName) {
    train_alone();
    system_test::write_tokens(folder_of_b() / "tokens.bin", 31, 60 * 12 + 1, 8);
    auto const result = train("a1:2,b1:2", job("other", steps));
    std::filesystem::remove(folder_of_b() / "tokens.bin");
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("ranks 2,3 (b1) do not see the same data as rank 0"));
    expect_same("other");
}

// And weights for a new run, from a checkpoint that b does not see; its own copy of the data it does.
TEST_F(Sites, TakeWeightsFromARunOfOne) {
    if (support::size() != support::Size::full)
        GTEST_SKIP() << "one more way to the same code, so only with EVENER_TEST_SIZE=full";
    train_alone();
    job::Job alone = job("alone-from", 2);
    alone.model.init_from = (folder() / "alone").string();
    auto const expected = system_test::train(alone, {.ranks = 4});
    ASSERT_EQ(expected.exit_code, 0) << expected.errors;
    std::filesystem::copy(folder() / "tokens.bin", folder_of_b() / "tokens.bin");
    job::Job apart = job("apart-from", 2);
    apart.model.init_from = alone.model.init_from;
    auto const result = train("a1:2,b1:2", apart);
    std::filesystem::remove(folder_of_b() / "tokens.bin");
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_THAT(result.errors, testing::Not(HasSubstr("do not see the same data")));
    expect_same_run(folder() / "alone-from", folder() / "apart-from", 2);
}

TEST_F(Sites, SayWhenRankZeroDoesNotSeeTheData) {
    // mpirun begins on b1, from where it is started, so the ranks of b are the first.
    std::vector<std::string> words{
        "on-host", "b1",  "mpirun", "--hostfile", (cluster_->state() / "hostfile").string(),
        "--mca",   "plm", "rsh",    "--host",     "b1:2,a1:2",
        "-n",      "4"};
    job::Job const mistaken = job("mistaken", steps);
    auto const command = system_test::train_command(mistaken);
    // Rank 0 reads the job itself, so b has that.
    std::filesystem::copy(command.back(), folder_of_b() / "mistaken.toml");
    words.insert(words.end(), command.begin(), command.end());
    auto const result = cluster_->script(words);
    std::filesystem::remove(folder_of_b() / "mistaken.toml");
    EXPECT_NE(result.exit_code, 0);
    EXPECT_THAT(result.errors,
                HasSubstr("rank 2 on host 'a1' can open the data, and rank 0 has to"));
}

} // namespace
} // namespace evener::testbed
