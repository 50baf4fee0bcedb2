// SPDX-License-Identifier: Apache-2.0

// A save is killed before each of the system calls that change what is on the disk, one after the
// other. Whenever that happens a whole checkpoint is found, and the next save works. The calls are
// this program's own definitions of rename, fsync, mkdir, unlink and unlinkat, which the linker
// puts before those of the C library, so the library under test knows nothing of it.

#include "checkpoints/store.hpp"
#include "checkpoints/verify.hpp"
#include "support/temporary_folder.hpp"

#include "sample.hpp"
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <set>

namespace {

int calls_left = -1; ///< -1: count nothing

/// The process dies here when its calls are used up.
void count_call() {
    if (calls_left == 0)
        _exit(9);
    if (calls_left > 0)
        --calls_left;
}

template <class Function>
Function next(char const* name) {
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

} // namespace

extern "C" {
int rename(char const* from, char const* to) noexcept {
    count_call();
    return next<int (*)(char const*, char const*)>("rename")(from, to);
}
int fsync(int descriptor) {
    count_call();
    return next<int (*)(int)>("fsync")(descriptor);
}
int mkdir(char const* path, mode_t mode) noexcept {
    count_call();
    return next<int (*)(char const*, mode_t)>("mkdir")(path, mode);
}
int unlink(char const* path) noexcept {
    count_call();
    return next<int (*)(char const*)>("unlink")(path);
}
int unlinkat(int folder, char const* path, int flags) noexcept {
    count_call();
    return next<int (*)(int, char const*, int)>("unlinkat")(folder, path, flags);
}
}

namespace evener::checkpoints {

namespace fs = std::filesystem;

namespace {

/// Runs `work` in a child that dies before its call number `calls`; whether it got to its end.
template <class Work>
bool survives(int calls, Work const& work) {
    pid_t const child = ::fork();
    if (child == 0) {
        calls_left = calls;
        work();
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == 9));
    return status == 0;
}

/// Kills `work` at every call, with a fresh `out` each time, and hands `out` to `check`. Returns
/// how many places there were.
template <class Prepare, class Work, class Inspect>
int kill_everywhere(Prepare const& prepare, Work const& work, Inspect const& check) {
    for (int calls = 0; calls < 1000; ++calls) {
        SCOPED_TRACE("killed before call " + std::to_string(calls));
        support::TemporaryFolder const out;
        prepare(out.path().string());
        bool const finished = survives(calls, [&] { work(out.path().string()); });
        check(out.path().string());
        if (finished || testing::Test::HasFailure())
            return calls;
    }
    return 1000;
}

} // namespace

TEST(Kill, ASaveLeavesTheOlderOrTheNewerWhole) {
    std::set<std::int64_t> found;
    int const places = kill_everywhere(
        [](std::string const& out) { sample::save(out, 10, 1); },
        [](std::string const& out) { sample::save(out, 20, 2); },
        [&](std::string const& out) {
            auto const newest = find_newest_valid(out, Depth::hashes);
            ASSERT_TRUE(newest);
            found.insert(newest->manifest.state.step);
            sample::expect_values(newest->folder, newest->manifest.state.step == 10 ? 1 : 2);
            EXPECT_TRUE(verify(newest->folder).empty());
            // and the same step can be reached and saved again
            EXPECT_TRUE(verify(sample::save(out, 20, 3)).empty());
            EXPECT_EQ(list(out, Depth::hashes).size(), 2u);
        });
    EXPECT_EQ(found, (std::set<std::int64_t>{10, 20}));
    EXPECT_GT(places, 10);
}

TEST(Kill, ReplacingLeavesTheOldOrTheNewOne) {
    std::set<std::string> found;
    kill_everywhere([](std::string const& out) { sample::save(out, 10, 1, 1); },
                    [](std::string const& out) { sample::save(out, 10, 2, 2); },
                    [&](std::string const& out) {
                        auto const newest = find_newest_valid(out, Depth::hashes);
                        ASSERT_TRUE(newest);
                        bool const old = newest->manifest.data_files.size() == 1;
                        sample::expect_values(newest->folder, old ? 1 : 2);
                        found.insert(fs::path{newest->folder}.extension().string() +
                                     (old ? " old" : " new"));
                        EXPECT_TRUE(verify(sample::save(out, 10, 3)).empty());
                    });
    EXPECT_EQ(found, (std::set<std::string>{" old", ".old old", " new"}));
}

TEST(Kill, NotesInThePlaceOfACheckpointAreNeverLost) {
    std::set<std::string> found;
    kill_everywhere(
        [](std::string const& out) {
            sample::save(out, 10, 1);
            fs::create_directory(out + "/step-00000020");
            sample::spill(out + "/step-00000020/notes", "mine");
        },
        [](std::string const& out) { sample::save(out, 20, 2); },
        [&](std::string const& out) {
            auto const newest = find_newest_valid(out, Depth::hashes);
            ASSERT_TRUE(newest);
            bool const aside = fs::exists(out + "/step-00000020.replaced/notes");
            EXPECT_NE(aside, fs::exists(out + "/step-00000020/notes"));
            found.insert((aside ? "aside " : "there ") +
                         std::to_string(newest->manifest.state.step));
            EXPECT_TRUE(verify(sample::save(out, 20, 3)).empty());
            EXPECT_EQ(sample::slurp(out + "/step-00000020.replaced/notes"), "mine");
            EXPECT_FALSE(fs::exists(out + "/step-00000020.replaced-2"));
        });
    EXPECT_EQ(found, (std::set<std::string>{"there 10", "aside 10", "aside 20"}));
}

TEST(Kill, PruneLeavesTheNewestAndNoHalves) {
    kill_everywhere(
        [](std::string const& out) {
            for (std::int64_t const step : {10, 20, 30})
                sample::save(out, step, static_cast<std::uint64_t>(step));
        },
        [](std::string const& out) { prune(out, {1}); },
        [](std::string const& out) {
            std::vector<std::string> notices;
            auto const left =
                list(out, Depth::hashes, [&](std::string const& line) { notices.push_back(line); });
            ASSERT_FALSE(left.empty());
            EXPECT_EQ(left.front().manifest.state.step, 30);
            EXPECT_EQ(notices, std::vector<std::string>{});
            sample::save(out, 40, 40);
            EXPECT_EQ(prune(out, {1}).size(), left.size());
            EXPECT_FALSE(fs::exists(out + "/step-00000010.tmp"));
        });
}

} // namespace evener::checkpoints
