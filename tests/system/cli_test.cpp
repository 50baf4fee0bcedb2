// SPDX-License-Identifier: Apache-2.0
// The command line as a person meets it: exit codes, messages, files.
#include "checkpoints/store.hpp"
#include "io/files.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

namespace evener::system_test {
namespace {

model::ModelConfig byte_model() {
    model::ModelConfig config;
    config.vocabulary = 256;
    config.hidden_size = 16;
    config.decoder_layers = 2;
    config.heads = config.kv_heads = 2;
    config.head_size = 8;
    config.ffn_size = 24;
    config.sequence_length = 16;
    return config;
}

class CommandLine : public ::testing::Test {
  protected:
    support::ProcessResult evener(std::vector<std::string> arguments, int ranks = 1) const {
        arguments.insert(arguments.begin(), support::program("evener").string());
        if (ranks > 1)
            arguments = support::under_mpirun(ranks, arguments);
        support::ProcessOptions options;
        options.folder = folder_.path();
        return support::run_process(arguments, options);
    }

    void write(std::string const& name, std::string const& text) const {
        io::write_file_atomically((folder_ / name).string(), text);
    }

    /// A trained run of `steps` steps in "run".
    job::Job trained(std::int64_t steps = 3) const {
        std::string text;
        for (int i = 0; i < 200; ++i)
            text += fmt::format("line {} of a small text\n", i);
        write("text.txt", text);
        auto const prepared = evener({"prepare", "--output", "data", "text.txt"});
        EXPECT_EQ(prepared.exit_code, 0) << prepared.errors;
        job::Job job = small_job(byte_model(), folder_ / "data/train.bin", folder_ / "run", steps);
        job.train.batch_size = 4;
        job.train.microbatch_size = 2;
        job.data.validation = {(folder_ / "data/val.bin").string()};
        job.train.validate_every = 2;
        job.checkpoint.every = 2;
        auto const result = train(job);
        EXPECT_EQ(result.exit_code, 0) << result.errors;
        return job;
    }

    static bool has(std::string const& text, std::string const& part) {
        return text.find(part) != std::string::npos;
    }

    support::TemporaryFolder folder_{"cli"};
};

TEST_F(CommandLine, ExplainsItselfAndRefusesWhatItDoesNotKnow) {
    EXPECT_EQ(evener({"--help"}).exit_code, 0);
    EXPECT_TRUE(has(evener({"--help"}).output, "train"));
    EXPECT_TRUE(has(evener({"--version"}).output, "evener "));
    EXPECT_EQ(evener({}).exit_code, 2);
    EXPECT_EQ(evener({"trian", "job.toml"}).exit_code, 2);
    EXPECT_EQ(evener({"train"}).exit_code, 2);
    EXPECT_EQ(evener({"check", "job.toml", "--no-such-option"}).exit_code, 2);
    EXPECT_EQ(evener({"plan", "job.toml", "--ranks", "many"}).exit_code, 2);
}

TEST_F(CommandLine, ReportsAllMistakesOfAJobAtOnceWithTheirPlaces) {
    write("bad.toml", "[model]\npreset = \"tiny\"\n[train]\nstpes = 10\nbatch_size = 0\n"
                      "[data]\ntrain = [\"x.bin\"]\n");
    for (std::string const command : {"check", "plan", "train"}) {
        auto const result = evener({command, "bad.toml"});
        EXPECT_EQ(result.exit_code, 2) << command;
        EXPECT_TRUE(has(result.errors, "bad.toml:4:1: error: unknown key 'stpes'"))
            << result.errors;
        EXPECT_TRUE(has(result.errors, "did you mean 'steps'")) << result.errors;
        EXPECT_TRUE(has(result.errors, "bad.toml:5:")) << result.errors;
    }
}

TEST_F(CommandLine, PrintsAMistakeOnceUnderMpirun) {
    write("bad.toml", "[model]\npreset = \"tiny\"\n[train]\nstpes = 10\n");
    auto const result = evener({"train", "bad.toml"}, 3);
    EXPECT_EQ(result.exit_code, 2);
    auto const first = result.errors.find("unknown key 'stpes'");
    ASSERT_NE(first, std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find("unknown key 'stpes'", first + 1), std::string::npos)
        << result.errors;
}

TEST_F(CommandLine, NamesMissingFiles) {
    EXPECT_EQ(evener({"check", "no.toml"}).exit_code, 2);
    EXPECT_EQ(evener({"train", "no.toml"}).exit_code, 2);
    job::Job const job = small_job(byte_model(), folder_ / "no-data.bin", folder_ / "run", 1);
    auto const result = train(job);
    EXPECT_EQ(result.exit_code, 5);
    EXPECT_TRUE(has(result.errors, "no-data.bin")) << result.errors;
}

TEST_F(CommandLine, PrintsAConfigThatParsesBackToItself) {
    job::Job const job = trained();
    auto const first = evener({"check", "run.toml", "--print-config"});
    ASSERT_EQ(first.exit_code, 0) << first.errors;
    write("again.toml", first.output);
    EXPECT_EQ(evener({"check", "again.toml", "--print-config"}).output, first.output);
    // The run folder holds the same text with the plan that was made filled in.
    EXPECT_TRUE(has(io::read_file(job.run.out + "/job.toml"), "[[plan.groups]]"));
    EXPECT_TRUE(has(io::read_file(job.run.out + "/plan.toml"), "[[plan.groups]]"));
}

TEST_F(CommandLine, ChecksTheJobsToCopy) {
    int jobs = 0;
    for (auto const& entry :
         std::filesystem::directory_iterator{support::source_root() / "inputs"}) {
        if (entry.path().extension() != ".toml")
            continue;
        auto const result = evener({"check", entry.path().string()});
        EXPECT_EQ(result.exit_code, 0) << result.errors;
        EXPECT_TRUE(has(result.output, ": fine")) << result.output;
        ++jobs;
    }
    EXPECT_GE(jobs, 3);
}

TEST_F(CommandLine, PlansWithoutMpirun) {
    trained();
    auto const result = evener({"plan", "run.toml", "--ranks", "3"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_TRUE(has(result.output, "3 ranks of equal speed assumed"));
    EXPECT_TRUE(has(result.output, "program rank=2"));
    EXPECT_TRUE(has(result.output, "memory of each rank's arena"));
}

TEST_F(CommandLine, WritesTheMetricsThatOthersRead) {
    job::Job const job = trained();
    std::ifstream file{job.run.out + "/metrics.jsonl"};
    std::string line;
    ASSERT_TRUE(std::getline(file, line));
    for (std::string const key : {"step", "loss", "val_loss", "grad_norm", "lr", "tokens",
                                  "tokens_per_second", "step_seconds"})
        EXPECT_TRUE(has(line, '"' + key + '"')) << key;
    auto const validation = metrics(job.run.out, "val_loss");
    EXPECT_TRUE(std::isnan(validation.at(1)));
    EXPECT_FALSE(std::isnan(validation.at(2)));
    EXPECT_EQ(metrics(job.run.out, "tokens").at(3), 3 * 4 * 16);
}

TEST_F(CommandLine, SamplesTheSameTextOnOneRankAndOnSeveral) {
    trained();
    std::vector<std::string> const command{"sample",  "run", "--prompt",      "line 1",
                                           "--bytes", "30",  "--temperature", "0.5"};
    auto const alone = evener(command);
    ASSERT_EQ(alone.exit_code, 0) << alone.errors;
    EXPECT_GE(alone.output.size(), 36u);
    EXPECT_EQ(evener(command, 3).output, alone.output);
    EXPECT_EQ(evener({"sample", "run", "--prompt", ""}).exit_code, 2);
    EXPECT_EQ(evener({"sample", "nowhere", "--prompt", "x"}).exit_code, 5);
}

TEST_F(CommandLine, EvaluatesToTheValidationLoss) {
    job::Job const job = trained(4);
    auto const result = evener({"evaluate", "run", "--data", "data/val.bin"});
    ASSERT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_TRUE(
        has(result.output, fmt::format("loss {:.3f}", metrics(job.run.out, "val_loss").at(4))))
        << result.output;
    EXPECT_EQ(evener({"evaluate", "run", "--data", "data/val.bin"}, 2).output, result.output);
    auto const context = evener({"evaluate", "run", "--data", "data/val.bin", "--context", "3"});
    EXPECT_EQ(context.exit_code, 0) << context.errors;
    EXPECT_TRUE(has(context.output, "context 3"));
}

TEST_F(CommandLine, InspectsAndFindsAFlippedByte) {
    job::Job const job = trained();
    auto const list = evener({"inspect", "run"});
    EXPECT_EQ(list.exit_code, 0) << list.errors;
    EXPECT_TRUE(has(list.output, "step 2"));
    EXPECT_EQ(evener({"inspect", "run", "--verify"}).exit_code, 0);
    auto const file = step_folder(job.run.out, 3) / "data-0000.h5";
    std::fstream data{file, std::ios::in | std::ios::out | std::ios::binary};
    data.seekp(static_cast<std::streamoff>(std::filesystem::file_size(file) / 2));
    data.put('\x5a');
    data.close();
    auto const damaged = evener({"inspect", "run", "--verify"});
    EXPECT_EQ(damaged.exit_code, 5);
    EXPECT_TRUE(has(damaged.output, "data-0000.h5")) << damaged.output;
}

TEST_F(CommandLine, SaysThatAFileIsNoCheckpoint) {
    job::Job const job = trained(2);
    std::string const run = job.run.out;
    std::string const step = step_folder(run, 2);
    for (std::string const& path : {run + "/latest", step + "/manifest.json", run + "/job.toml"}) {
        auto const inspected = evener({"inspect", path});
        EXPECT_EQ(inspected.exit_code, 5);
        EXPECT_TRUE(has(inspected.errors, fmt::format("'{}': is a file (a checkpoint is a folder); "
                                                      "name the run folder or one of its 'step-' "
                                                      "folders",
                                                      path)))
            << inspected.errors;
    }
    EXPECT_TRUE(has(evener({"inspect", run + "/latest"}).errors, ", such as '" + run + "'"));
    auto const resumed = evener(
        {"train", "run/job.toml", "--resume", step + "/manifest.json", "--set", "run.out=other"});
    EXPECT_EQ(resumed.exit_code, 5);
    EXPECT_TRUE(has(resumed.errors, "is a file (a checkpoint is a folder)")) << resumed.errors;
    EXPECT_TRUE(has(resumed.errors, ", such as '" + step + "'")) << resumed.errors;
}

TEST_F(CommandLine, InspectsARunOfBadCheckpoints) {
    job::Job const job = trained(2);
    std::filesystem::path const good = step_folder(job.run.out, 2);
    std::filesystem::path const bad = step_folder(job.run.out, 7);
    std::filesystem::rename(good, bad);
    auto const list = evener({"inspect", "run"});
    EXPECT_EQ(list.exit_code, 5);
    auto const first = list.errors.find("the folder was renamed");
    EXPECT_NE(first, std::string::npos) << list.errors;
    EXPECT_EQ(list.errors.find("the folder was renamed", first + 1), std::string::npos)
        << list.errors;
    EXPECT_TRUE(has(list.errors, "none of its checkpoints is whole")) << list.errors;
    auto const named = evener({"inspect", "run", "--verify"});
    EXPECT_EQ(named.exit_code, 5);
    EXPECT_TRUE(has(named.output, "step-00000007: it is of step 2")) << named.output;
    std::filesystem::remove(bad / "data-0000.h5");
    std::filesystem::remove(bad / "model.h5");
    auto const harmed = evener({"inspect", "run", "--verify"});
    EXPECT_EQ(harmed.exit_code, 5);
    EXPECT_TRUE(has(harmed.output, "data-0000.h5: the file is missing")) << harmed.output;
    EXPECT_TRUE(has(harmed.output, "model.h5: the file is missing")) << harmed.output;
}

TEST_F(CommandLine, ThingsInTheWayOfASaveAreRefusedAtTheStartOrMovedAside) {
    job::Job job = trained(2);
    job.train.steps = 6;
    std::filesystem::path const run = job.run.out;
    std::filesystem::rename(run / "latest", run / "mine");
    std::filesystem::create_directory(run / "latest");
    auto const refused = train(job);
    EXPECT_EQ(refused.exit_code, 5);
    EXPECT_TRUE(has(refused.errors, "latest': is a folder (every save writes a file"))
        << refused.errors;
    EXPECT_FALSE(has(refused.errors, "step 3")) << refused.errors;
    std::filesystem::remove(run / "latest");
    write("run/step-00000004", "a file");
    write("run/step-00000006", "another");
    auto const result = train(job);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    for (std::int64_t const step : {4, 6}) {
        std::string const path = step_folder(run, step);
        EXPECT_TRUE(has(result.errors, "'" + path + "': it is a file (a checkpoint is"))
            << result.errors;
        EXPECT_TRUE(has(result.errors, "it is '" + path + ".replaced' now")) << result.errors;
        EXPECT_TRUE(std::filesystem::is_regular_file(path + ".replaced"));
    }
    EXPECT_EQ(checkpoints::list(run, checkpoints::Depth::hashes).front().manifest.state.step, 6);
}

TEST_F(CommandLine, SaysWhichOldCheckpointsWereDeleted) {
    job::Job job = trained(2);
    job.train.steps = 5;
    job.checkpoint.keep = 1;
    auto const result = train(job);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    for (std::int64_t const step : {2, 4})
        EXPECT_TRUE(has(result.errors, fmt::format("r00 info  deleted {} ('checkpoint.keep' is 1)",
                                                   step_folder(job.run.out, step).string())))
            << result.errors;
}

TEST_F(CommandLine, RefusesNumbersThatAreNotFinite) {
    std::vector<std::vector<std::string>> const commands{
        {"prepare", "text.txt", "--output", "made", "--validation-fraction"},
        {"sample", "run", "--prompt", "x", "--temperature"},
        {"export", "run", "--output", "made", "--file-gib"}};
    for (std::vector<std::string> command : commands)
        for (std::string const number : {"nan", "inf", "1e999"}) {
            std::vector<std::string> words = command;
            words.push_back(number);
            auto const result = evener(words);
            EXPECT_EQ(result.exit_code, 2) << words.back();
            EXPECT_TRUE(
                has(result.errors, command.back() + ": '" + number + "' is no finite number"))
                << result.errors;
        }
}

TEST_F(CommandLine, StopsWhenTheLossIsNotFiniteAndWritesNothingBad) {
    job::Job job = trained(2);
    job.train.steps = 60;
    job.optimizer.learning_rate = 1000;
    job.optimizer.clip_norm = 0;
    job.checkpoint.every = 1; // also right before the step that fails
    auto const stopped = train(job);
    EXPECT_EQ(stopped.exit_code, 1);
    EXPECT_TRUE(has(stopped.errors, "not finite")) << stopped.errors;
    EXPECT_TRUE(has(stopped.errors, "train.on_nonfinite")) << stopped.errors;
    auto const found = checkpoints::list(job.run.out, checkpoints::Depth::hashes);
    ASSERT_GE(found.size(), 1u);
    for (checkpoints::CheckpointInfo const& info : found)
        for (std::string const& kind : info.manifest.kinds)
            for (auto const& [name, values] : tensors(info.folder, kind))
                for (float const value : values)
                    ASSERT_TRUE(std::isfinite(value)) << info.folder << " " << name;
}

TEST_F(CommandLine, SkipsUpToALimit) {
    job::Job job = trained(2);
    job.run.out = (folder_ / "skip").string();
    job.train.steps = 90;
    job.optimizer.learning_rate = 1000;
    job.optimizer.clip_norm = 0;
    job.train.on_nonfinite = job::OnNonfinite::skip;
    job.train.nonfinite_limit = 2;
    auto const result = train(job, {.ranks = 2});
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_TRUE(has(result.errors, "the step was skipped")) << result.errors;
    EXPECT_TRUE(has(result.errors, "'train.nonfinite_limit' is 2")) << result.errors;
}

TEST_F(CommandLine, RefusesTokensOutsideTheVocabulary) {
    job::Job job = trained();
    job.model.vocabulary = 100; // 'l' is 108
    job.run.out = (folder_ / "small").string();
    auto const result = train(job);
    EXPECT_EQ(result.exit_code, 5);
    EXPECT_TRUE(has(result.errors, "vocabulary")) << result.errors;
}

TEST_F(CommandLine, RefusesAPlanForOtherRanks) {
    job::Job job = trained();
    job.run.out = (folder_ / "planned").string();
    write("planned.toml", io::read_file((folder_ / "run.toml").string()) +
                              "\n[[plan.groups]]\nranks = [0]\nlayers = 3\n[[plan.groups]]\nranks "
                              "= [1]\nlayers = 3\n");
    auto const result = evener({"train", "planned.toml", "--set", "run.out=planned"}, 3);
    EXPECT_EQ(result.exit_code, 2) << result.errors;
    EXPECT_TRUE(has(result.errors, "rank")) << result.errors;
}

TEST_F(CommandLine, RefusesNeverWhereCheckpointsAre) {
    job::Job job = trained();
    job.checkpoint.resume = "never";
    auto const result = train(job);
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_TRUE(has(result.errors, "holds checkpoints up to step 3")) << result.errors;
}

TEST_F(CommandLine, StartsAFreshOptimizerFromAnotherRunsWeights) {
    job::Job job = trained();
    job.model.init_from = job.run.out;
    job.run.out = (folder_ / "tuned").string();
    auto const result = train(job);
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_TRUE(has(result.errors, "weights from")) << result.errors;
    EXPECT_LT(metrics(job.run.out, "loss").at(1), metrics(folder_ / "run", "loss").at(1));
}

TEST_F(CommandLine, KeepsASecondJobOutOfTheRunFolder) {
    job::Job job = trained();
    io::RunFolderLock const lock{job.run.out};
    auto const result = train(job);
    EXPECT_EQ(result.exit_code, 5);
    EXPECT_TRUE(has(result.errors, "in use by process")) << result.errors;
}

} // namespace
} // namespace evener::system_test
