// SPDX-License-Identifier: Apache-2.0
// What people do to files of a run while it trains.
#include "io/files.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace evener::system_test {
namespace {

class Mishaps : public testing::Test {
  protected:
    void SetUp() override { write_tokens(folder_ / "tokens.bin", 19, 4000, 5); }

    job::Job make_job(std::string const& name, std::int64_t steps) const {
        job::Job job = small_job(config_, folder_ / "tokens.bin", folder_ / name, steps);
        job.train.batch_size = 4;
        job.train.microbatch_size = 1;
        job.log.step_every = 1000;
        return job;
    }

    /// Trains on two ranks; `what` is done behind the third step.
    support::ProcessResult disturbed(job::Job const& job, std::string const& what) const {
        return support::run_process(
            {"bash", "-c",
             fmt::format("{} & job=$!\n"
                         "while [ \"$(cat {}/metrics.jsonl 2>/dev/null | wc -l)\" -lt 3 ] && kill "
                         "-0 $job 2>/dev/null; do sleep 0.01; done\n{}\nwait $job\n",
                         fmt::join(support::under_mpirun(2, train_command(job)), " "), job.run.out,
                         what)},
            {.folder = folder_.path(),
             .environment = {"OMP_NUM_THREADS=1"},
             .timeout = std::chrono::seconds{60}});
    }

    support::TemporaryFolder folder_{"mishaps"};
    model::ModelConfig config_ = tiny_config();
};

TEST_F(Mishaps, AStatusFileThatIsCutShortStopsNothing) {
    constexpr std::int64_t steps = 1500;
    auto const result = disturbed(make_job("run", steps), "cp run/status was; : > run/status");
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.errors.find("status' was cut short by somebody"), std::string::npos)
        << result.errors;
    EXPECT_NE(io::read_file((folder_ / "was").string()), "");
    EXPECT_EQ(metrics(folder_ / "run", "loss").size(), static_cast<std::size_t>(steps));
    EXPECT_EQ(train(make_job("run", steps + 1), {.ranks = 2}).exit_code, 0);
}

TEST_F(Mishaps, ATokenFileThatIsCutShortIsNamed) {
    auto const result = disturbed(make_job("run", 1'000'000), "truncate -s 0 tokens.bin");
    EXPECT_EQ(result.exit_code, 5) << result.errors;
    EXPECT_NE(result.errors.find("tokens.bin': was cut short while it was used"), std::string::npos)
        << result.errors;
}

TEST_F(Mishaps, AMetricsFileThatIsNoneIsRefused) {
    std::filesystem::create_directories(folder_ / "run");
    std::filesystem::create_symlink("/dev/null", folder_ / "run/metrics.jsonl");
    auto const result = train(make_job("run", 2), {.ranks = 2});
    EXPECT_EQ(result.exit_code, 5) << result.errors;
    EXPECT_NE(result.errors.find("metrics.jsonl': is no regular file"), std::string::npos)
        << result.errors;
}

TEST_F(Mishaps, AJobThatChangesBetweenStartsSaysWhatItChanges) {
    ASSERT_EQ(train(make_job("run", 2), {.ranks = 1}).exit_code, 0);
    job::Job other = make_job("run", 4);
    other.train.batch_size = 8;
    other.optimizer.learning_rate = 0.5;
    auto const result = train(other, {.ranks = 1});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_NE(result.errors.find("changed since the checkpoint: train.steps 2 -> 4, "
                                 "train.batch_size 4 -> 8, optimizer.learning_rate"),
              std::string::npos)
        << result.errors;
    EXPECT_EQ(train(other, {.ranks = 1}).errors.find("changed since"), std::string::npos);
}

} // namespace
} // namespace evener::system_test
