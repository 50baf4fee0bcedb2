// SPDX-License-Identifier: Apache-2.0
// What is known of a job that hangs or dies without a word: the watchdog ends it and says where each
// rank stands, and the next start says how the last one ended.
#include "io/files.hpp"
#include "runtime/status_line.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

namespace evener::system_test {
namespace {

class Watchdog : public testing::Test {
  protected:
    void SetUp() override { write_tokens(folder_ / "tokens.bin", 19, 4000, 5); }

    job::Job make_job(std::string const& name, std::int64_t seconds) const {
        job::Job job = small_job(config_, folder_ / "tokens.bin", folder_ / name, 1'000'000);
        job.train.batch_size = 4;
        job.train.microbatch_size = 1;
        job.run.watchdog_seconds = seconds;
        job.log.step_every = 100'000;
        return job;
    }

    /// Starts the job on three ranks, waits for its third step and runs `then`, in which $job is
    /// mpirun and $rank the process of rank 1.
    support::ProcessResult with_ranks(job::Job const& job, std::string const& then) const {
        return support::run_process(
            {"bash", "-c",
             fmt::format(
                 "{} & job=$!\n"
                 "for i in $(seq 600); do [ \"$(cat {}/metrics.jsonl 2>/dev/null | wc -l)\" "
                 "-ge 3 ] && break; sleep 0.05; done\n"
                 "for r in $(pgrep -P $job); do "
                 "grep -qz '^OMPI_COMM_WORLD_RANK=1$' /proc/$r/environ && rank=$r; done\n{}\n",
                 fmt::join(support::under_mpirun(3, train_command(job)), " "), job.run.out, then)},
            {.folder = folder_.path(),
             .environment = {"OMP_NUM_THREADS=1"},
             .timeout = std::chrono::seconds{60}});
    }

    support::TemporaryFolder folder_{"watchdog"};
    model::ModelConfig const config_ = tiny_config();
};

std::size_t count(std::string const& text, std::string const& words) {
    std::size_t found = 0;
    for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
        ++found;
    return found;
}

TEST_F(Watchdog, EndsAJobWithAStoppedRankAndSaysOnceWhereAllStand) {
    job::Job job = make_job("run", 2);
    job.checkpoint.every = 1; // so that it may stop in a save, too
    auto const result = with_ranks(job, "kill -STOP $rank; wait $job");
    EXPECT_EQ(result.exit_code, 4) << result.errors;
    EXPECT_EQ(count(result.errors, "nothing has moved for "), 1u) << result.errors;
    for (int rank = 0; rank < 3; ++rank)
        EXPECT_EQ(count(result.errors, fmt::format(" rank {} (", rank)), 1u) << result.errors;
    std::size_t const stopped = result.errors.find(" rank 1 (");
    std::string const line =
        result.errors.substr(stopped, result.errors.find('\n', stopped) - stopped);
    EXPECT_NE(line.find("and shows no life"), std::string::npos) << result.errors;
    EXPECT_EQ(count(result.errors, "and shows no life"), 1u) << result.errors;
}

TEST_F(Watchdog, IsWhatEndsIt) {
    job::Job const job = make_job("run", -1);
    auto const result = with_ranks(job, "kill -STOP $rank; sleep 4; kill -0 $job || echo gone\n"
                                        "kill -CONT $rank; kill -USR1 $job; wait $job");
    EXPECT_EQ(result.exit_code, 75) << result.errors;
    EXPECT_EQ(result.output, "");
}

TEST_F(Watchdog, LetsARankPauseForLessThanTheLimit) {
    auto const result =
        with_ranks(make_job("run", 4), "for i in 1 2 3; do kill -STOP $rank; sleep 1.5; "
                                       "kill -CONT $rank; sleep 0.5; done\n"
                                       "kill -USR1 $job; wait $job");
    EXPECT_EQ(result.exit_code, 75) << result.errors;
    EXPECT_EQ(count(result.errors, "nothing has moved"), 0u) << result.errors;
}

TEST_F(Watchdog, LetsALongValidationRun) {
    job::Job job = make_job("run", 1);
    write_tokens(folder_ / "long.bin", 19, 40'000, 6);
    job.data.validation = {(folder_ / "long.bin").string()};
    job.train.validate_every = 4;
    job.train.steps = 4;
    auto const result = train(job, {.ranks = 3});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(metrics(job.run.out, "val_loss").size(), 4u);
}

TEST_F(Watchdog, LetsAWholeJobSleep) {
    // All ranks at once: nobody has moved, and nobody was awake to see it.
    auto const result =
        with_ranks(make_job("run", 2), "ranks=$(pgrep -P $job); kill -STOP $ranks; sleep 4\n"
                                       "kill -CONT $ranks; sleep 1; kill -USR1 $job; wait $job");
    EXPECT_EQ(result.exit_code, 75) << result.errors;
    EXPECT_EQ(count(result.errors, "nothing has moved"), 0u) << result.errors;
}

TEST_F(Watchdog, LeavesTheLastWordsOfAKilledRankToTheNextStart) {
    job::Job job = make_job("run", 0);
    job.checkpoint.every = 1;
    auto const killed = with_ranks(job, "kill -KILL $rank; wait $job");
    EXPECT_EQ(killed.exit_code, 137) << killed.errors;
    auto const inspected = support::run_process(
        {support::program("evener").string(), "inspect", (folder_ / "run").string()});
    EXPECT_EQ(inspected.exit_code, 0) << inspected.errors;
    EXPECT_EQ(count(inspected.output, "or ended without a word:\nrank 1 ("), 1u)
        << inspected.output;

    job.train.steps = 3; // done already
    auto const next = train(job, {.ranks = 3});
    EXPECT_EQ(next.exit_code, 0) << next.errors;
    EXPECT_EQ(count(next.errors, "the last run ended without a word:"), 1u) << next.errors;
    EXPECT_EQ(count(next.errors, "  rank 1 ("), 1u) << next.errors;
    EXPECT_GE(count(next.errors, "told to end"), 1u) << next.errors;
    // That one came to its end.
    auto const last = train(job, {.ranks = 3});
    EXPECT_EQ(count(last.errors, "the last run ended"), 0u) << last.errors;
}

TEST_F(Watchdog, NamesARankThatComputesFarSlowerThanPredictedOnce) {
    job::Job job = make_job("run", 0);
    job.train.steps = 45;
    auto const profiled = train(job, {.ranks = 3, .command = "profile"});
    ASSERT_EQ(profiled.exit_code, 0) << profiled.errors;
    job.plan.profile = (folder_ / "run/profile.json").string();
    std::vector<std::string> const command = train_command(job);
    // Rank 1 sleeps up to 8 ms within each instruction.
    auto const result =
        support::run_process({"bash", "-c",
                              fmt::format("{} : -n 1 env EVENER_RANDOM_DELAYS=1:8000 {} : -n 1 {}",
                                          fmt::join(support::under_mpirun(1, command), " "),
                                          fmt::join(command, " "), fmt::join(command, " "))},
                             {.folder = folder_.path(), .environment = {"OMP_NUM_THREADS=1"}});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(count(result.errors, "rank 1 ("), 1u) << result.errors;
    EXPECT_EQ(count(result.errors, "computes for "), 1u) << result.errors;
}

TEST_F(Watchdog, LeavesErrorsWithWordsAlone) {
    job::Job job = make_job("run", 0);
    job.train.steps = 5;
    job.optimizer.learning_rate = 1e3;
    job.model.init_std = 100;
    job.train.on_nonfinite = job::OnNonfinite::stop;
    job.optimizer.clip_norm = 0;
    auto const failed = train(job, {.ranks = 3});
    EXPECT_EQ(failed.exit_code, 1) << failed.errors;
    EXPECT_EQ(count(failed.errors, "are not finite"), 1u) << failed.errors;
    auto const records = runtime::parse_status(io::read_file((folder_ / "run/status").string()));
    ASSERT_EQ(records.size(), 3u);
    EXPECT_EQ(records[2].phase, runtime::Phase::failed);
    EXPECT_TRUE(runtime::last_words(records).empty());
}

} // namespace
} // namespace evener::system_test
