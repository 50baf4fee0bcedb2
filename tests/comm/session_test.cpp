// SPDX-License-Identifier: Apache-2.0

// Start and end of MPI, seen from outside.

#include "support/paths.hpp"
#include "support/process.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evener::support {
namespace {

using testing::HasSubstr;

std::string session_program() {
    return program("session_program").string();
}

TEST(MpiSession, OfOneProcessWithoutALauncherEndsWell) {
    auto const result = run_process({session_program(), "run"});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.output, "rank 0 of 1\n");
}

TEST(MpiSession, OfThreeRanksEndsWell) {
    auto const result = run_process(under_mpirun(3, {session_program(), "run"}));
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    for (int rank = 0; rank < 3; ++rank)
        EXPECT_THAT(result.output, HasSubstr("rank " + std::to_string(rank) + " of 3\n"));
}

TEST(MpiSession, RefusesToTrainAloneWhenMoreRanksAreAnnounced) {
    ProcessOptions options;
    options.environment = {"SLURM_STEP_ID=0", "SLURM_PROCID=1", "SLURM_NTASKS=4"};
    auto const result = run_process({session_program(), "run"}, options);
    EXPECT_EQ(result.exit_code, 4);
    EXPECT_THAT(result.errors,
                HasSubstr("error: the launcher announces 4 ranks in SLURM_NTASKS (MPI_COMM_WORLD "
                          "has 1, so every process trains alone) start with srun --mpi=pmix, or "
                          "with the mpirun of this MPI"));
}

TEST(MpiSession, AnErrorOfOneRankEndsTheOthersThatWaitForIt) {
    ProcessOptions options;
    options.timeout = std::chrono::seconds{60};
    auto const result = run_process(under_mpirun(2, {session_program(), "fail"}), options);
    EXPECT_FALSE(result.timed_out);
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_THAT(result.errors, HasSubstr("error: the device is gone"));
}

} // namespace
} // namespace evener::support
