// SPDX-License-Identifier: Apache-2.0
// Runs are killed in the middle of saves, at every named point and anywhere. What was reported saved is
// there and whole, and the run goes on as if nothing had happened.
#include "checkpoints/save_points.hpp"
#include "checkpoints/store.hpp"
#include "checkpoints/verify.hpp"
#include "support/paths.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace evener::system_test {
namespace {

using checkpoints::SavePoint;

constexpr int ranks = 2;
constexpr std::size_t points = checkpoints::save_point_names.size();
/// Each run is killed in its second save, so it gets at most two steps further.
constexpr std::int64_t steps = 2 * static_cast<std::int64_t>(points) + 2;
/// Of a run that is killed at random.
constexpr std::int64_t fewer_steps = 16;

class SaveDrills : public testing::Test {
  protected:
    SaveDrills() {
        config_.vocabulary = 23;
        config_.hidden_size = 12;
        config_.heads = config_.kv_heads = 2;
        config_.head_size = 6;
        config_.ffn_size = 17;
        config_.sequence_length = 7;
        write_tokens(folder_ / "tokens.bin", config_.vocabulary, 300, 5);
    }

    job::Job job(std::string const& name, std::int64_t last = steps) const {
        job::Job result = small_job(config_, folder_ / "tokens.bin", folder_ / name, last);
        result.train.batch_size = 4;
        result.train.microbatch_size = 2;
        result.optimizer.kind = job::OptimizerKind::adamw;
        result.optimizer.learning_rate = 0.01;
        result.checkpoint.every = 1;
        std::int64_t const layers = 2 + 2 * config_.decoder_layers;
        result.plan.groups = {even_group({0}, layers / 2), even_group({1}, layers - layers / 2)};
        return result;
    }

    /// The run that nobody kills.
    void train_whole(std::int64_t last) const {
        job::Job whole = job("whole", last);
        whole.checkpoint.every = 0;
        auto const result = train(whole, {.ranks = ranks});
        ASSERT_EQ(result.exit_code, 0) << result.errors;
    }

    std::int64_t newest_step(std::string const& name) const {
        auto const newest =
            checkpoints::find_newest_valid((folder_ / name).string(), checkpoints::Depth::sizes);
        return newest ? newest->manifest.state.step : 0;
    }

    /// The step of the last line "saved FOLDER/step-N in ..."; 0: none.
    static std::int64_t reported_step(std::string const& errors) {
        constexpr std::string_view mark = "/step-";
        std::int64_t step = 0;
        for (auto place = errors.find(" saved "); place != std::string::npos;
             place = errors.find(" saved ", place + 1))
            step = std::stoll(errors.substr(errors.find(mark, place) + mark.size()));
        return step;
    }

    /// Ends a rank with SIGKILL some time after the run's next step, wherever it is then.
    static support::ProcessResult train_killed_after(job::Job const& job, double seconds,
                                                     int rank) {
        auto const command = support::under_mpirun(ranks, train_command(job));
        return support::run_process(
            {"bash", "-c",
             fmt::format("newest() {{ tail -n 1 {1}/metrics.jsonl 2>/dev/null; }}\n"
                         "before=$(newest)\n"
                         "{0} & job=$!\n"
                         "while [ \"$(newest)\" = \"$before\" ] && kill -0 $job 2>/dev/null; do\n"
                         "  sleep 0.01\n"
                         "done\n"
                         "sleep {2:.3f}\n"
                         "for p in $(pgrep -P $job); do\n"
                         "  grep -qz '^OMPI_COMM_WORLD_RANK={3}$' /proc/$p/environ && kill -9 $p\n"
                         "done 2>/dev/null\n"
                         "wait $job\n",
                         fmt::join(command, " "), job.run.out, seconds, rank)},
            {.environment = {"OMP_NUM_THREADS=1"}, .timeout = std::chrono::seconds{60}});
    }

    /// What a run that was killed leaves behind.
    void expect_sound(std::string const& name, support::ProcessResult const& result) const {
        EXPECT_FALSE(result.timed_out) << result.errors;
        std::int64_t const reported = reported_step(result.errors);
        EXPECT_GE(newest_step(name), reported) << result.errors;
        if (reported > 0) {
            EXPECT_EQ(checkpoints::verify(step_folder(folder_ / name, reported).string()),
                      std::vector<std::string>{});
        }
        for (auto const& info :
             checkpoints::list((folder_ / name).string(), checkpoints::Depth::hashes))
            EXPECT_EQ(checkpoints::verify(info.folder), std::vector<std::string>{});
    }

    /// Goes on to the last step and compares with the run that was never killed.
    void expect_like_whole(std::string const& name, std::int64_t last) const {
        auto const result = train(job(name, last), {.ranks = ranks});
        ASSERT_EQ(result.exit_code, 0) << result.errors;
        EXPECT_EQ(metrics(folder_ / name, "loss"), metrics(folder_ / "whole", "loss"));
        EXPECT_TRUE(same_checkpoint(step_folder(folder_ / name, last),
                                    step_folder(folder_ / "whole", last)));
        auto const inspected = support::run_process({support::program("evener").string(), "inspect",
                                                     (folder_ / name).string(), "--verify"});
        EXPECT_EQ(inspected.exit_code, 0) << inspected.output << inspected.errors;
    }

    support::TemporaryFolder folder_{"drills"};
    model::ModelConfig config_;
};

/// All points one after the other, in an order of the seed: each run goes on where the last was killed.
TEST_F(SaveDrills, AKillAtAnyPointLosesNothingThatWasReported) {
    train_whole(steps);
    auto seeds = support::seeds("save_drills", 5);
    if (support::size() != support::Size::full)
        seeds.resize(1);
    for (std::uint64_t const seed : seeds) {
        SCOPED_TRACE(fmt::format("EVENER_TEST_SEED={}", seed));
        std::string const name = fmt::format("points-{}", seed);
        std::vector<std::size_t> order(points);
        std::iota(order.begin(), order.end(), 0u);
        support::Random random{seed};
        for (std::size_t i = points - 1; i > 0; --i)
            std::swap(order[i],
                      order[static_cast<std::size_t>(random.integer(0, static_cast<int>(i)))]);
        // Without a whole checkpoint the run would not go on beside the folder planted below.
        if (static_cast<SavePoint>(order.front()) == SavePoint::commit_renames)
            std::swap(order.front(), order.back());
        for (std::size_t const point : order) {
            std::string const fault{checkpoints::save_point_names[point]};
            SCOPED_TRACE(fault);
            std::int64_t const step = newest_step(name) + 2;
            if (static_cast<SavePoint>(point) ==
                SavePoint::commit_renames) // there is one to replace
                std::filesystem::create_directories(step_folder(folder_ / name, step));
            // Old ones are deleted from the third save on; that of the run's end is the last.
            bool const prunes = static_cast<SavePoint>(point) == SavePoint::prune_delete;
            TrainOptions options{
                .ranks = ranks,
                .environment = {
                    prunes ? fmt::format("EVENER_FAULT=save.{}:kill", fault)
                           : fmt::format("EVENER_FAULT=save.{}:step={}:kill", fault, step)}};
            options.timeout = std::chrono::seconds{60};
            auto const result = train(job(name), options);
            EXPECT_NE(result.errors.find("planted: kill at save." + fault), std::string::npos)
                << result.errors;
            EXPECT_NE(result.exit_code, 0);
            expect_sound(name, result);
        }
        expect_like_whole(name, steps);
        if (HasFailure())
            return;
    }
    fmt::print(
        "drill: {} kills, at each of {} points of a save {} times: nothing reported saved was "
        "lost, all resumed\n",
        points * seeds.size(), points, seeds.size());
}

/// A rank dies at any time, or in one of its messages, wherever the save beside it is.
TEST_F(SaveDrills, AKillAnywhereLosesNothingThatWasReported) {
    train_whole(fewer_steps);
    int const kills = support::size() == support::Size::full ? 200 : 8;
    support::Random random{support::seeds("random_kills", 2).front()};
    std::string name = "random-0";
    int killed = 0; ///< others had ended before
    int runs = 0;
    for (; killed < kills && runs < 6 * kills; ++runs) {
        int const rank = static_cast<int>(random.integer(0, ranks - 1));
        if (runs % 2 == 0) { // the steps take about half a second where nothing else runs
            double const seconds = 0.001 * static_cast<double>(random.integer(0, 350));
            SCOPED_TRACE(fmt::format("rank {} after {} s", rank, seconds));
            auto const result = train_killed_after(job(name, fewer_steps), seconds, rank);
            killed += result.exit_code != 0 ? 1 : 0;
            expect_sound(name, result);
        } else {
            TrainOptions options{.ranks = ranks, .environment = mpi_shim()};
            options.environment.push_back(
                fmt::format("EVENER_SHIM_DIES={}@{}", random.integer(1, 50), rank));
            if (runs % 4 == 1)
                options.delay_seed = static_cast<std::uint64_t>(runs);
            options.timeout = std::chrono::seconds{60};
            SCOPED_TRACE(options.environment.back());
            auto const result = train(job(name, fewer_steps), options);
            killed += result.exit_code != 0 ? 1 : 0;
            expect_sound(name, result);
        }
        if (newest_step(name) > fewer_steps / 2) {
            expect_like_whole(name, fewer_steps);
            name = fmt::format("random-{}", runs + 1);
        }
        if (HasFailure())
            return;
    }
    expect_like_whole(name, fewer_steps);
    EXPECT_EQ(killed, kills);
    fmt::print(
        "drill: {} kills anywhere in {} runs: nothing reported saved was lost, all resumed\n",
        killed, runs);
}

TEST_F(SaveDrills, APointThatTheRankNeverPassesIsRefusedAtTheStart) {
    auto const result =
        train(job("never"),
              {.ranks = ranks, .environment = {"EVENER_FAULT=save.commit.start:rank=1:kill"}});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.errors.find("EVENER_FAULT names rank 1 (save.commit.start is passed by rank 0 "
                                 "alone)"),
              std::string::npos)
        << result.errors;
}

TEST_F(SaveDrills, AnUnknownPointIsRefusedWithAllThatThereAre) {
    auto const result =
        train(job("unknown"), {.ranks = ranks, .environment = {"EVENER_FAULT=save.nowhere:kill"}});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_NE(result.errors.find("use 'save.' and one of begin.start, begin.folder, "),
              std::string::npos)
        << result.errors;
}

} // namespace
} // namespace evener::system_test
