// SPDX-License-Identifier: Apache-2.0

// The helpers that other tests stand on: processes, temporary folders.

#include "support/process.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <fstream>

namespace evener::support {
namespace {

TEST(Process, OutputErrorsAndExitCodeAreKept) {
    auto const result = run_process({"sh", "-c", "echo out; echo err >&2; exit 3"});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(result.output, "out\n");
    EXPECT_EQ(result.errors, "err\n");
    EXPECT_FALSE(result.timed_out);
}

TEST(Process, FolderAndEnvironmentReachTheProgram) {
    TemporaryFolder const folder;
    auto const result = run_process({"sh", "-c", "echo $WORD; pwd -P"},
                                    {.folder = folder.path(), .environment = {"WORD=hello"}});
    EXPECT_EQ(result.output, "hello\n" + std::filesystem::canonical(folder.path()).string() + "\n");
}

TEST(Process, AProgramThatHangsIsEndedWithItsChildren) {
    auto const result =
        run_process({"sh", "-c", "sleep 60 & sleep 60"}, {.timeout = std::chrono::seconds{1}});
    EXPECT_TRUE(result.timed_out);
    EXPECT_EQ(result.exit_code, 128 + 15);
}

TEST(Process, AMissingProgramIsSaid) {
    EXPECT_EQ(run_process({"evener-no-such-program"}).exit_code, 127);
}

TEST(TemporaryFolder, IsUniqueAndGoesWithItsFiles) {
    std::filesystem::path path;
    {
        TemporaryFolder const one{"name"};
        TemporaryFolder const two{"name"};
        EXPECT_NE(one.path(), two.path());
        path = one.path();
        std::filesystem::create_directories(one / "deep/er");
        std::ofstream{one / "deep/er/file"} << "text";
        EXPECT_TRUE(std::filesystem::exists(path));
    }
    EXPECT_FALSE(std::filesystem::exists(path));
}

} // namespace
} // namespace evener::support
