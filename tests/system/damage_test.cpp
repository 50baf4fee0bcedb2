// SPDX-License-Identifier: Apache-2.0
// Damaged checkpoints, full disks and folders that cannot be written: all of it is named, and nothing is
// lost that was reported saved.
#include "checkpoints/verify.hpp"
#include "io/files.hpp"
#include "support/paths.hpp"
#include "support/sizes.hpp"
#include "support/temporary_folder.hpp"

#include "system/runs.hpp"
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

namespace evener::system_test {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t last = 6;
constexpr std::int64_t newest = 4; ///< of the run that gets damaged; the one before is step 2

class Damage : public ::testing::Test {
  protected:
    Damage() {
        write_tokens(folder_ / "tokens.bin", tiny_config().vocabulary, 500, 5);
        EXPECT_EQ(train(job("whole", last)).exit_code, 0);
        losses_ = metrics(folder_ / "whole", "loss");
        EXPECT_EQ(train(job("base", newest)).exit_code, 0);
    }

    job::Job job(std::string const& name, std::int64_t steps) const {
        job::Job result = small_job(tiny_config(), folder_ / "tokens.bin", folder_ / name, steps);
        result.optimizer.kind = job::OptimizerKind::adamw;
        result.train.batch_size = 4;
        result.train.microbatch_size = 2;
        result.checkpoint.every = 2;
        return result;
    }

    support::ProcessResult inspect(std::string const& name) const {
        return support::run_process(
            {support::program("evener").string(), "inspect", "--verify", folder_ / name});
    }

    /// Goes on to the last step, from wherever it can.
    support::ProcessResult resume(std::string const& name) const { return train(job(name, last)); }

    support::TemporaryFolder folder_{"damage"};
    std::map<std::int64_t, double> losses_; ///< by step, of a run that nothing happened to
};

enum class Harm { bit_flip, truncation, zeros, deletion };

void harm(fs::path const& file, Harm how, std::uint64_t seed) {
    std::mt19937_64 random{seed};
    std::string bytes = io::read_file(file);
    ASSERT_FALSE(bytes.empty());
    switch (how) {
    case Harm::bit_flip:
        bytes[random() % bytes.size()] ^= static_cast<char>(1U << random() % 8);
        break;
    case Harm::truncation:
        bytes.resize(random() % bytes.size());
        break;
    case Harm::zeros: // from a place on, as a file system leaves what it had not written
        std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(random() % (bytes.size() / 2)),
                  bytes.end(), '\0');
        break;
    case Harm::deletion:
        fs::remove(file);
        return;
    }
    io::write_file_atomically(file, bytes);
}

TEST_F(Damage, OfAnyFileIsNamedAndTheRunGoesOn) {
    std::vector<std::string> files;
    for (fs::directory_entry const& entry :
         fs::directory_iterator{step_folder(folder_ / "base", newest)})
        files.push_back(entry.path().filename());
    std::sort(files.begin(), files.end());
    ASSERT_GE(files.size(), 5U) << fmt::format("{}", fmt::join(files, " "));
    auto const cases = static_cast<int>(4 * files.size()); // each file in each way
    int number = 0;
    for (std::uint64_t const seed : support::seeds("Damage.OfAnyFile", 5 * cases)) {
        auto const place = static_cast<std::size_t>(number++);
        std::string const& file = files[place % files.size()];
        auto const how = static_cast<Harm>((place + place / files.size()) % 4);
        SCOPED_TRACE(
            fmt::format("EVENER_TEST_SEED={}: harm {} to {}", seed, static_cast<int>(how), file));
        fs::remove_all(folder_ / "case");
        fs::copy(folder_ / "base", folder_ / "case", fs::copy_options::recursive);
        harm(step_folder(folder_ / "case", newest) / file, how, seed);

        support::ProcessResult const looked = inspect("case");
        EXPECT_EQ(looked.exit_code, 5) << looked.output << looked.errors;
        std::string const said = looked.output + looked.errors;
        EXPECT_NE(said.find(file), std::string::npos) << said;

        support::ProcessResult const result = resume("case");
        EXPECT_EQ(result.exit_code, 0) << result.errors;
        EXPECT_NE(result.errors.find(file), std::string::npos) << result.errors;
        EXPECT_EQ(metrics(folder_ / "case", "loss"), losses_);
        EXPECT_EQ(checkpoints::verify(step_folder(folder_ / "case", last)),
                  std::vector<std::string>{});
    }
    fmt::print("drill: {} damaged files named by inspect and by the resume, which went on\n",
               number);
}

/// Runs a script in a mount namespace of its own; nothing where that is not allowed.
std::optional<support::ProcessResult> with_own_mounts(std::string const& script) {
    std::vector<std::string> const unshare{"unshare", "--mount", "--map-root-user"};
    auto const run = [&](std::string const& text) {
        std::vector<std::string> command = unshare;
        command.insert(command.end(), {"sh", "-c", text});
        return support::run_process(command);
    };
    if (run("mount -t tmpfs none /mnt").exit_code != 0)
        return std::nullopt;
    return run(script);
}

TEST_F(Damage, OfNothingWhenTheDiskIsFull) {
    std::int64_t bytes = 0;
    for (fs::directory_entry const& entry :
         fs::directory_iterator{step_folder(folder_ / "base", newest)})
        bytes += static_cast<std::int64_t>(entry.file_size());
    std::string const evener = support::program("evener");
    int refused = 0;
    int disks = 0;
    for (std::uint64_t const seed : support::seeds("Damage.FullDisk", 40)) {
        SCOPED_TRACE(fmt::format("EVENER_TEST_SEED={}", seed));
        ++disks;
        fs::create_directories(folder_ / "disk");
        std::string const train =
            fmt::format("{}", fmt::join(train_command(job("disk/run", last)), " "));
        // Room for something between half a checkpoint and four, beside the job and its logs.
        std::int64_t const room =
            bytes / 2 + static_cast<std::int64_t>(seed % 100) * bytes * 35 / 1000;
        std::string const disk = folder_ / "disk";
        auto const result = with_own_mounts(fmt::format(
            "cp {0}/run.toml {0}/../disk-run.toml; mount -t tmpfs -o size={1} none {0} || exit 99\n"
            "cp {0}/../disk-run.toml {0}/run.toml\n"
            "{2} 2>{0}/../first.txt; echo first $?\n"
            "{3} inspect --verify {0}/run >{0}/../inspected.txt 2>&1; echo inspected $?\n"
            "mount -o remount,size=64m {0}\n"
            "{2} 2>{0}/../second.txt; echo second $?\n"
            "cp -r {0}/run {0}/../copy\n",
            disk, room + 60000, train, evener));
        if (!result)
            GTEST_SKIP() << "no mount namespaces here";
        std::string const first = io::read_file(folder_ / "first.txt");
        bool const done = result->output.find("first 0") != std::string::npos;
        if (!done) {
            ++refused;
            EXPECT_NE(result->output.find("first 5"), std::string::npos) << result->output << first;
            EXPECT_NE(first.find("free some space"), std::string::npos) << first;
        }
        std::string const inspected = io::read_file(folder_ / "inspected.txt");
        // What was reported saved is there and whole.
        bool const saved = first.find("saved ") != std::string::npos;
        EXPECT_EQ(result->output.find("inspected 0") != std::string::npos, saved)
            << result->output << inspected << first;
        EXPECT_NE(result->output.find("second 0"), std::string::npos)
            << result->output << io::read_file(folder_ / "second.txt");
        EXPECT_EQ(metrics(folder_ / "copy", "loss"), losses_);
        fs::remove_all(folder_ / "copy");
    }
    EXPECT_GT(refused, 0);
    fmt::print("drill: {} of {} disks were too small: nothing reported saved was lost, and the run "
               "went on when there was room\n",
               refused, disks);
}

TEST_F(Damage, OfNothingInAFolderThatCannotBeWritten) {
    std::string const run = folder_ / "base";
    std::string const train = fmt::format("{}", fmt::join(train_command(job("base", last)), " "));
    auto const result = with_own_mounts(fmt::format(
        "mount --bind {0} {0} && mount -o remount,ro,bind {0} || exit 99\n{1}; echo ended $?\n",
        run, train));
    if (!result)
        GTEST_SKIP() << "no mount namespaces here";
    EXPECT_NE(result->output.find("ended 5"), std::string::npos)
        << result->output << result->errors;
    EXPECT_NE(result->errors.find("base"), std::string::npos) << result->errors;
    EXPECT_NE(result->errors.find("ead-only"), std::string::npos) << result->errors;
    EXPECT_EQ(inspect("base").exit_code, 0);
    EXPECT_EQ(resume("base").exit_code, 0);
    EXPECT_EQ(metrics(folder_ / "base", "loss"), losses_);
}

} // namespace
} // namespace evener::system_test
