// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "io/file_bytes.hpp"
#include "io/files.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>

namespace evener::io {
namespace {

using core::IoError;
using support::expect_error;
using support::expect_error_containing;

class FilesTest : public testing::Test {
  protected:
    std::string path(std::string const& name) { return (folder_ / name).string(); }
    std::size_t entries() {
        return static_cast<std::size_t>(
            std::distance(std::filesystem::directory_iterator{folder_.path()}, {}));
    }

    support::TemporaryFolder folder_{"files"};
};

TEST_F(FilesTest, WritesAndReadsWholeFiles) {
    std::string content(300000, 'x');
    content[5] = '\0';
    write_file_atomically(path("a"), content);
    EXPECT_EQ(read_file(path("a")), content);
    write_file_atomically(path("a"), "");
    EXPECT_EQ(read_file(path("a")), "");
    EXPECT_EQ(entries(), 1u);
}

TEST_F(FilesTest, NamesPathAndReason) {
    expect_error<IoError>([&] { read_file(path("none")); },
                          "'" + path("none") + "': cannot be opened (No such file or directory)");
    expect_error<IoError>([&] { write_file_atomically(path("none/a"), "x"); },
                          "'" + path("none/a") +
                              "': cannot be created (No such file or directory)");
    std::filesystem::create_directory(path("folder"));
    expect_error<IoError>([&] { write_file_atomically(path("folder"), "x"); },
                          "'" + path("folder") + "': cannot be put in place (Is a directory)");
    expect_error<IoError>([&] { read_file(path("folder")); },
                          "'" + path("folder") + "': is a folder, not a file");
    test::write(path("file"), "x");
    expect_error_containing<IoError>([&] { create_folder(path("file/below")); },
                                     "cannot be created as a folder");
    EXPECT_EQ(entries(), 2u); // no temporary file is left
}

TEST_F(FilesTest, ReplacesNothingThatIsNoFile) {
    ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
    std::filesystem::create_symlink("fifo", path("link"));
    for (std::string const name : {"fifo", "link"})
        expect_error_containing<IoError>([&] { write_file_atomically(path(name), "x"); },
                                         "'" + path(name) + "': is no regular file");
    EXPECT_TRUE(std::filesystem::is_fifo(path("fifo")));
    EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
    EXPECT_EQ(entries(), 2u);
}

TEST_F(FilesTest, AFullDiskIsAnErrorAndLeavesTheOldFile) {
    write_file_atomically(path("a"), "old");
    pid_t const child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) { // a limit on the file size stands for a full disk
        ::signal(SIGXFSZ, SIG_IGN);
        rlimit const limit{1000, 1000};
        ::setrlimit(RLIMIT_FSIZE, &limit);
        try {
            write_file_atomically(path("a"), std::string(100000, 'x'));
        } catch (IoError const& error) {
            ::_exit(error.what() == "'" + path("a") + "': cannot be written (File too large)" ? 5
                                                                                              : 1);
        }
        ::_exit(0);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(WEXITSTATUS(status), 5);
    EXPECT_EQ(read_file(path("a")), "old");
    EXPECT_EQ(entries(), 1u);
}

std::string holder() {
    char host[256] = {};
    ::gethostname(host, sizeof host - 1);
    return "process " + std::to_string(::getpid()) + " on host '" + host + "' since 2";
}

TEST_F(FilesTest, LockRefusesASecondHolderAndNamesTheFirst) {
    std::string const run = path("runs/one"); // created with its parents
    std::optional<RunFolderLock> first{run};
    expect_error_containing<IoError>([&] { RunFolderLock{run}; },
                                     "'" + run + "': the run folder is in use by " + holder());
    expect_error_containing<IoError>([&] { RunFolderLock{run}; },
                                     "; wait for that job to end or set another [run] out");
    RunFolderLock const other{path("runs/two")};
    first.reset();
    RunFolderLock const again{run};
}

TEST_F(FilesTest, LockMovesWithItsObject) {
    std::optional<RunFolderLock> first{path("run")};
    RunFolderLock const second{std::move(*first)};
    first.reset();
    EXPECT_THROW(RunFolderLock{path("run")}, IoError);
}

/// Starts a child that takes the lock, says so and then sleeps until it is killed.
pid_t start_holder(std::string const& folder, RunFolderLock::Method method) {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid_t const child = ::fork();
    if (child == 0) {
        RunFolderLock const lock{folder, method};
        EXPECT_EQ(::write(ready[1], "x", 1), 1);
        for (;;)
            ::pause();
    }
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1);
    ::close(ready[0]);
    ::close(ready[1]);
    return child;
}

TEST_F(FilesTest, LockEndsWithAKilledProcess) {
    for (auto const method :
         {RunFolderLock::Method::automatic, RunFolderLock::Method::exclusive_file}) {
        pid_t const child = start_holder(path("run"), method);
        expect_error_containing<IoError>([&] { RunFolderLock(path("run"), method); },
                                         "in use by process " + std::to_string(child));
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        RunFolderLock const lock{path("run"), method};
    }
}

TEST_F(FilesTest, ExclusiveFileOfAnotherHostIsNotTakenOver) {
    std::string const file = path("run/lock.exclusive");
    create_folder(path("run"));
    test::write(file, "farhost 77 2026-01-02 03:04:05\n");
    expect_error<IoError>(
        [&] { RunFolderLock(path("run"), RunFolderLock::Method::exclusive_file); },
        "'" + file +
            "': the run folder is in use by process 77 on host 'farhost' since 2026-01-02 "
            "03:04:05 (its file system has no locks); if that job has ended, remove this file");
    test::write(file, "");
    expect_error_containing<IoError>(
        [&] { RunFolderLock(path("run"), RunFolderLock::Method::exclusive_file); },
        "is in use by another process");
}

TEST_F(FilesTest, ExclusiveFileGoesWithItsHolder) {
    { RunFolderLock const lock{path("run"), RunFolderLock::Method::exclusive_file}; }
    EXPECT_TRUE(std::filesystem::is_empty(path("run")));
}

} // namespace
} // namespace evener::io
