// SPDX-License-Identifier: Apache-2.0

// Which folders count as checkpoints, what is replaced and deleted, and what the system may refuse.

#include "checkpoints/files.hpp"
#include "checkpoints/store.hpp"
#include "checkpoints/verify.hpp"
#include "core/error.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include "sample.hpp"
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <limits>

namespace evener::checkpoints {

namespace fs = std::filesystem;
using support::expect_error;
using support::expect_error_containing;
using support::TemporaryFolder;

namespace {

std::vector<std::int64_t> steps(std::vector<CheckpointInfo> const& list) {
    std::vector<std::int64_t> result;
    for (CheckpointInfo const& info : list)
        result.push_back(info.manifest.state.step);
    return result;
}

using Steps = std::vector<std::int64_t>;

} // namespace

TEST(Store, ListsNewestFirst) {
    TemporaryFolder const out;
    EXPECT_TRUE(list(out / "nowhere", Depth::sizes).empty());
    for (std::int64_t const step : {20, 5, 123456789})
        sample::save(out.path(), step);
    EXPECT_EQ(steps(list(out.path(), Depth::hashes)), (Steps{123456789, 20, 5}));
    EXPECT_EQ(find_newest_valid(out.path(), Depth::sizes)->folder,
              (out / "step-123456789").string());
}

TEST(Store, CountsOnlyFoldersWithAManifest) {
    TemporaryFolder const out;
    sample::save(out.path(), 10);
    fs::create_directory(out / "step-00000030");
    fs::create_directory(out / "step-00000040.tmp");
    fs::create_directory(out / "step-50");
    fs::copy(out / "step-00000010", out / "step-00000060", fs::copy_options::recursive);
    std::vector<std::string> notices;
    auto const newest = find_newest_valid(
        out.path(), Depth::sizes, [&](std::string const& line) { notices.push_back(line); });
    EXPECT_EQ(newest->manifest.state.step, 10);
    EXPECT_EQ(notices, (std::vector<std::string>{
                           "checkpoint '" + (out / "step-00000060").string() +
                               "': it is of step 10 (the folder was renamed)",
                           "checkpoint '" + (out / "step-00000030").string() +
                               "': it has no manifest.json (the save was interrupted, or it is no "
                               "checkpoint)"}));
}

TEST(Store, LeftoversNeverBlockASave) {
    TemporaryFolder const out;
    sample::save(out.path(), 10);
    fs::create_directories(out / "step-00000020.tmp/x/y");
    sample::spill(out / "step-00000020.tmp/data-0000.h5", "half");
    fs::create_directories(out / "step-00000015.tmp");
    sample::spill(out / "latest.tmp", "half");
    sample::save(out.path(), 20);
    EXPECT_EQ(steps(list(out.path(), Depth::hashes)), (Steps{20, 10}));
    EXPECT_FALSE(fs::exists(out / "step-00000015.tmp"));
}

TEST(Store, ReplacesACheckpointOfTheSameStep) {
    TemporaryFolder const out;
    sample::save(out.path(), 10, 1);
    std::string const folder = sample::save(out.path(), 10, 2);
    sample::expect_values(folder, 2);
    EXPECT_FALSE(fs::exists(out / "step-00000010.old"));
}

/// A save of step 20 and what it says of things in its way.
std::vector<std::string> notices_of_save(TemporaryFolder const& out, Description const& what) {
    std::vector<std::string> notices;
    std::string const folder = begin(out.path(), 20, 0);
    commit(out.path(), what, sample::write_slices(folder, 2, 0, 1), {},
           [&](std::string const& line) { notices.push_back(line); });
    return notices;
}

/// Puts something that belongs to somebody in the place of step 20, and returns a name in it; empty:
/// it is no folder.
std::string plant(TemporaryFolder const& out, std::string const& what) {
    fs::path const place = out / "step-00000020";
    fs::remove_all(place);
    Description other = sample::description(20);
    if (what == "file") {
        sample::spill(place, "mine");
        return "";
    }
    if (what == "link") {
        fs::create_symlink("nowhere", place);
        return "";
    }
    if (what == "folder with notes") {
        fs::create_directory(place);
        sample::spill(place / "notes", "mine");
        return "notes";
    }
    if (what == "renamed checkpoint") {
        fs::rename(sample::save(out.path(), 10), place);
        return "manifest.json";
    }
    if (what == "other seed")
        ++other.state.seed;
    else if (what == "other data")
        other.state.data_fingerprint += "other";
    else
        other.model["hidden_size"] += "0";
    commit(out.path(), other, sample::write_slices(begin(out.path(), 20, 0), 1, 0, 1));
    return "manifest.json";
}

TEST(Store, MovesAsideWhatIsNoCheckpointOfItsStep) {
    TemporaryFolder const out;
    fs::path const place = out / "step-00000020";
    std::vector<std::string> asides;
    for (std::string const what : {"file", "folder with notes", "link", "renamed checkpoint",
                                   "other seed", "other data", "other model"}) {
        SCOPED_TRACE(what);
        std::string const kept = plant(out, what);
        std::size_t const number = asides.size() + 1;
        asides.push_back(place.string() + ".replaced" +
                         (number == 1 ? "" : "-" + std::to_string(number)));
        EXPECT_EQ(notices_of_save(out, sample::description(20)),
                  std::vector<std::string>{
                      "'" + place.string() +
                      "' was no checkpoint of this run at step 20, and stood in the way of one; it "
                      "is '" +
                      asides.back() + "' now"});
        sample::expect_values(place, 2);
        std::string const path = asides.back() + (kept.empty() ? "" : "/" + kept);
        EXPECT_TRUE(fs::exists(fs::symlink_status(path))) << path;
        EXPECT_FALSE(fs::exists(out / "step-00000020.old"));
    }
    prune(out.path(), {1});
    for (std::string const& aside : asides)
        EXPECT_TRUE(fs::exists(fs::symlink_status(aside))) << aside;
    EXPECT_EQ(steps(list(out.path(), Depth::hashes)), Steps{20});
}

TEST(Store, ReplacesWhatHoldsNothingOfItsOwnWithoutAWord) {
    TemporaryFolder const out;
    fs::create_directory(out / "step-00000020");
    EXPECT_TRUE(notices_of_save(out, sample::description(20)).empty());
    EXPECT_TRUE(notices_of_save(out, sample::description(20)).empty());
    EXPECT_FALSE(fs::exists(out / "step-00000020.replaced"));
}

TEST(Store, NothingButAFileMayHaveTheNameOfLatest) {
    for (std::string const name : {"latest", "latest.tmp"}) {
        TemporaryFolder const out;
        require_places(out.path());
        require_places(out / "nowhere");
        sample::spill(out / name, "step-00000010");
        require_places(out.path());
        fs::remove(out / name);
        fs::create_directory(out / name);
        std::string const path = (out / name).string();
        expect_error<core::IoError>([&] { require_places(out.path()); },
                                    "'" + path +
                                        "': is a folder (every save writes a file of this name) "
                                        "move it away or choose another 'out'");
        expect_error_containing<core::IoError>([&] { begin(out.path(), 1, 0); }, "is a folder");
        fs::remove(path);
        ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
        expect_error_containing<core::IoError>([&] { require_places(out.path()); },
                                               "'" + path + "': is no regular file");
    }
}

TEST(Store, BringsBackWhatWasBeingReplaced) {
    TemporaryFolder const out;
    sample::save(out.path(), 10, 1);
    fs::rename(out / "step-00000010", out / "step-00000010.old");
    EXPECT_EQ(steps(list(out.path(), Depth::hashes)), Steps{10});
    begin(out.path(), 30, 0);
    sample::expect_values((out / "step-00000010").string(), 1);
}

TEST(Store, PruneKeepsTheNewestValid) {
    TemporaryFolder const out;
    for (std::int64_t const step : {1, 2, 3, 4})
        sample::save(out.path(), step);
    fs::remove(out / "step-00000004/data-0001.h5");
    EXPECT_EQ(prune(out.path(), {2}), std::vector<std::string>{(out / "step-00000001").string()});
    EXPECT_EQ(steps(list(out.path(), Depth::hashes)), (Steps{3, 2}));
    EXPECT_EQ(prune(out.path(), {1}).size(), 1u);
    EXPECT_TRUE(prune(out.path(), {1}).empty());
    EXPECT_EQ(steps(list(out.path(), Depth::hashes)), Steps{3});
    EXPECT_TRUE(fs::exists(out / "step-00000004")) << "a damaged one is left for people";
}

TEST(Store, PruneKeepsTheOneSavedLastEvenIfItsStepIsLower) {
    TemporaryFolder const out;
    for (std::int64_t const step : {10, 20, 30, 15})
        sample::save(out.path(), step);
    EXPECT_EQ(prune(out.path(), {1}).size(), 2u);
    EXPECT_EQ(steps(list(out.path(), Depth::hashes)), (Steps{30, 15}));
}

TEST(Store, PruneKeepsTheMultiplesOfAStep) {
    TemporaryFolder const out;
    for (std::int64_t const step : {100, 150, 200, 250, 300, 310, 320})
        sample::save(out.path(), step);
    EXPECT_TRUE(prune(out.path(), {}).empty());
    EXPECT_EQ(prune(out.path(), {.newest = 2, .every = 100}).size(), 2u);
    EXPECT_EQ(steps(list(out.path(), Depth::sizes)), (Steps{320, 310, 300, 200, 100}));
    EXPECT_EQ(prune(out.path(), {.newest = 1}).size(), 4u);
}

// A disk that loses or changes what it was given is found before older checkpoints go.
TEST(Store, ConfirmReadsBackWhatWasCommitted) {
    for (std::string const file : {"manifest.json", "job.toml", "data-0001.h5"}) {
        TemporaryFolder const out;
        Description const what = sample::description(10);
        std::string const folder = begin(out.path(), 10, 0);
        CheckpointInfo const info = commit(out.path(), what, sample::write_slices(folder, 0, 0, 2));
        confirm(info);
        std::string text = sample::slurp(info.folder + "/" + file);
        text.pop_back();
        sample::spill(info.folder + "/" + file, text);
        expect_error_containing<core::CheckpointError>(
            [&] { confirm(info); },
            file == "manifest.json" ? "manifest.json" : file + ": the file has ");
    }
}

TEST(Store, AWriterReadsItsFileBack) {
    TemporaryFolder const out;
    std::string const folder = begin(out.path(), 10, 0);
    WriterResult const written = sample::write_slices(folder, 0, 0, 1).front();
    EXPECT_TRUE(damaged_file(written, folder).empty());
    std::string const path = folder + "/data-0000.h5";
    std::string const whole = sample::slurp(path);
    auto const place = static_cast<std::size_t>(written.slices.back().offset);
    for (auto const& [at, expected] : std::vector<std::pair<std::size_t, std::string>>{
             {place, "its checksum is not"}, {0, "structure of the file"}}) {
        std::string text = whole;
        text[at] = static_cast<char>(text[at] ^ 1);
        sample::spill(path, text);
        auto const lines = damaged_file(written, folder);
        ASSERT_EQ(lines.size(), 1u);
        EXPECT_NE(lines[0].find(expected), std::string::npos) << lines[0];
    }
    fs::remove(path);
    EXPECT_EQ(damaged_file(written, folder),
              std::vector<std::string>{"data-0000.h5: the file is missing"});
}

TEST(Store, CommitRefusesSlicesThatDoNotTile) {
    TemporaryFolder const out;
    Description const what = sample::description(10);
    std::string const folder = begin(out.path(), 10, 0);
    auto writers = sample::write_slices(folder, 0, 0, 2);
    auto missing = writers;
    missing.pop_back();
    expect_error_containing<core::CheckpointError>([&] { commit(out.path(), what, missing); },
                                                   "are in no slice");
    fs::resize_file(folder + "/data-0001.h5", 100);
    expect_error_containing<core::CheckpointError>([&] { commit(out.path(), what, writers); },
                                                   "data-0001.h5: the file has 100 bytes, not ");
    EXPECT_TRUE(list(out.path(), Depth::sizes).empty());
    abandon(out.path(), 10);
    EXPECT_FALSE(fs::exists(folder));
}

TEST(Store, RefusesBeforeWritingWhatDoesNotFit) {
    TemporaryFolder const out;
    expect_error_containing<core::IoError>(
        [&] { begin(out.path(), 1, std::numeric_limits<std::int64_t>::max()); },
        "a checkpoint of 9223372.0 TB does not fit (free: ");
    EXPECT_TRUE(fs::is_empty(out.path()));
}

TEST(Store, SaysWhyAFolderCannotBeMade) {
    TemporaryFolder const out;
    sample::spill(out / "file", "");
    std::string const path = (out / "file/run").string();
    expect_error<core::IoError>([&] { begin(path, 1, 0); },
                                "'" + path + "': cannot create the folder (Not a directory)");
}

/// Runs `work` in a child process that ends by `leave`, and returns the message of its IoError.
template <class Work>
std::string message_in_child(Work const& work, void (*leave)(int) = std::exit) {
    int pipe_ends[2];
    if (::pipe(pipe_ends) != 0)
        return "no pipe";
    pid_t const child = ::fork();
    if (child == 0) {
        std::string text = "no error";
        try {
            work();
        } catch (core::IoError const& error) {
            text = error.what();
        } catch (std::exception const& error) {
            text = std::string{"another error: "} + error.what();
        }
        ssize_t const written = ::write(pipe_ends[1], text.data(), text.size());
        leave(written > 0 ? 0 : 1);
    }
    ::close(pipe_ends[1]);
    std::string text;
    char buffer[4096];
    for (ssize_t got; (got = ::read(pipe_ends[0], buffer, sizeof buffer)) > 0;)
        text.append(buffer, static_cast<std::size_t>(got));
    ::close(pipe_ends[0]);
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    return text;
}

TEST(Store, ReadOnlyFolderGivesAClearError) {
    TemporaryFolder const out;
    constexpr auto list_only = static_cast<fs::perms>(0555);
    fs::permissions(out.path(), list_only);
    // _exit: the leak check at exit cannot attach to a process that changed its user.
    std::string const text = message_in_child(
        [&] {
            constexpr uid_t nobody = 65534;
            if (::geteuid() == 0 && ::seteuid(nobody) != 0)
                ::_exit(2);
            begin(out.path(), 1, 0);
        },
        ::_exit);
    fs::permissions(out.path(), fs::perms::owner_all);
    EXPECT_EQ(text,
              "'" + (out / "step-00000001.tmp").string() +
                  "': cannot create the folder (Permission denied) choose an 'out' folder that "
                  "you may write");
}

// A limit on file sizes stands for a full disk: write() fails in the middle of a slice, or when
// HDF5 writes its own structure. The process lives on, saves again, and ends by exit(): HDF5 left
// to itself crashes at one of these.
TEST(Store, FailingWriteGivesAClearErrorAndDoesNoHarm) {
    for (int const slices : {1, 5000}) {
        SCOPED_TRACE(slices);
        TemporaryFolder const out;
        sample::save(out.path(), 10, 1);
        std::string const text = message_in_child([&] {
            std::signal(SIGXFSZ, SIG_IGN);
            rlimit const limited{1'000'000, RLIM_INFINITY};
            rlimit const unlimited{RLIM_INFINITY, RLIM_INFINITY};
            ::setrlimit(RLIMIT_FSIZE, &limited);
            std::vector<float> const data(static_cast<std::size_t>(500'000 / slices));
            auto const rows = static_cast<std::int64_t>(data.size());
            std::string message;
            try {
                SliceWriter writer{begin(out.path(), 20, 0), 0};
                for (int i = 0; i < slices; ++i)
                    writer.write(
                        {"parameters", "t" + std::to_string(i), {rows}, {0, rows}, data.data()});
                writer.finish();
            } catch (core::IoError const& error) {
                message = error.what();
            }
            ::setrlimit(RLIMIT_FSIZE, &unlimited);
            abandon(out.path(), 20);
            sample::save(out.path(), 30, 3);
            throw core::IoError{"", message};
        });
        std::string const path = (out / "step-00000020.tmp/data-0000.h5").string();
        EXPECT_TRUE(text.starts_with("'': '" + path + "': H5")) << text;
        EXPECT_NE(
            text.find(" failed (File too large) raise the file size limit (ulimit -f) or choose a "
                      "file system that allows it [HDF5: "),
            std::string::npos)
            << text;
        EXPECT_EQ(steps(list(out.path(), Depth::hashes)), (Steps{30, 10}));
    }
}

TEST(Store, RemediesAreNamed) {
    EXPECT_EQ(files::remedy(ENOSPC), " free some space or choose another 'out'");
    EXPECT_NE(files::remedy(ENOLCK).find("HDF5_USE_FILE_LOCKING=FALSE"), std::string::npos);
    EXPECT_EQ(files::remedy(EINTR), "");
}

} // namespace evener::checkpoints
