// SPDX-License-Identifier: Apache-2.0

// One test that fails on rank 1 only, and one that every rank skips: see planted_test.cpp.

#include <gtest/gtest.h>
#include <mpi.h>

namespace {

TEST(Planted, FailsOnRankOne) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    EXPECT_NE(rank, 1) << "planted";
}

TEST(Planted, IsSkipped) {
    GTEST_SKIP();
}

} // namespace
