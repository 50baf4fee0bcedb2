// SPDX-License-Identifier: Apache-2.0
// When a run saves: at multiples of a number of steps, by the clock, and at its end. Nothing here
// waits for a time to be right: what happens is waited for, and a busy machine only makes it later.
#include "checkpoints/store.hpp"
#include "support/temporary_folder.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace evener::system_test {
namespace {

using Steps = std::vector<std::int64_t>;

class SaveTimes : public testing::Test {
  protected:
    void SetUp() override { write_tokens(folder_ / "tokens.bin", 19, 4000, 5); }

    /// Both ranks hold a half of every parameter, so that a checkpoint needs both of them.
    job::Job make_job(std::string const& name, std::int64_t steps) const {
        model::ModelConfig const config = tiny_config();
        job::Job job = small_job(config, folder_ / "tokens.bin", folder_ / name, steps);
        job.train.batch_size = 4;
        job.train.microbatch_size = 2;
        job.plan.groups = {even_group({0, 1}, 2 * config.decoder_layers + 2)};
        job.checkpoint.keep = 1000;
        job.log.step_every = 1000;
        return job;
    }

    /// Of the checkpoints that are whole, ascending.
    Steps saved(std::string const& name) const {
        Steps steps;
        for (checkpoints::CheckpointInfo const& info :
             checkpoints::list((folder_ / name).string(), checkpoints::Depth::hashes))
            steps.push_back(info.manifest.state.step);
        std::sort(steps.begin(), steps.end());
        return steps;
    }

    support::TemporaryFolder folder_{"save_times"};
};

TEST_F(SaveTimes, ByTheClockOnAllRanksAndNotMoreOftenThanAsked) {
    job::Job job = make_job("clock", 1'000'000);
    job.checkpoint.every_seconds = 1;
    auto const begin = std::chrono::steady_clock::now();
    // Runs until two saves were made, and a moment more, in which too many would show. Random
    // delays make the steps long for their size, so that few are to be repeated.
    auto const result = support::run_process(
        {"bash", "-c",
         fmt::format("{} & job=$!\n"
                     "for i in $(seq 600); do [ $(ls -d {}/step-*[0-9] 2>/dev/null | wc -l) -ge 2 ]"
                     " && break; kill -0 $job || break; sleep 0.05; done\n"
                     "sleep 0.5; kill -USR1 $job; wait $job\n",
                     fmt::join(support::under_mpirun(2, train_command(job)), " "), job.run.out)},
        {.environment = {"OMP_NUM_THREADS=1", "EVENER_RANDOM_DELAYS=1:1000"},
         .timeout = std::chrono::seconds{60}});
    std::chrono::duration<double> const seconds = std::chrono::steady_clock::now() - begin;
    ASSERT_EQ(result.exit_code, 75) << result.errors;
    Steps const steps = saved("clock");
    ASSERT_GE(steps.size(), 3u) << result.errors;
    std::size_t const by_clock = steps.size() - 1; // the last is that of the end
    EXPECT_LE(static_cast<double>(by_clock), seconds.count()) << fmt::format("{}", steps);

    // What the ranks saved is one step's state.
    job::Job const whole = make_job("whole", steps.front());
    ASSERT_EQ(train(whole, {.ranks = 2}).exit_code, 0);
    EXPECT_TRUE(same_checkpoint(step_folder(job.run.out, steps.front()),
                                step_folder(whole.run.out, steps.front())));
}

TEST_F(SaveTimes, ATimeThatNeverComesAddsNothingToTheSteps) {
    job::Job job = make_job("run", 5);
    job.checkpoint.every_seconds = 1'000'000;
    job.checkpoint.every = 2;
    auto const result = train(job, {.ranks = 2});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(saved("run"), (Steps{2, 4, 5}));
}

} // namespace
} // namespace evener::system_test
