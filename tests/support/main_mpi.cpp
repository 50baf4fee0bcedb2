// SPDX-License-Identifier: Apache-2.0

// Main of the tests that run under mpirun. Every rank runs every test in the same order. Rank 0
// reports as GoogleTest does, the others only their failures, with their rank; the exit code is the
// largest of all ranks. A rank that leaves a test early may leave the others waiting in a message:
// then ctest's timeout ends them, and the reason stands above.

#include "support/skipped.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <string>

namespace {

class RankReporter : public testing::EmptyTestEventListener {
  public:
    explicit RankReporter(int rank) : rank_{rank} {}

  private:
    void OnTestStart(testing::TestInfo const& test) override {
        test_ = std::string{test.test_suite_name()} + "." + test.name();
    }

    // GoogleTest holds its lock here: asking it for the current test would never return.
    void OnTestPartResult(testing::TestPartResult const& part) override {
        if (!part.failed())
            return;
        std::fprintf(stderr, "rank %d: %s: %s:%d: %s\n", rank_, test_.c_str(),
                     part.file_name() ? part.file_name() : "", part.line_number(), part.message());
        std::fflush(stderr);
    }

    std::string test_;
    int rank_;
};

int run(int argc, char** argv) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    testing::InitGoogleTest(&argc, argv);
    if (rank != 0) {
        testing::TestEventListeners& listeners = testing::UnitTest::GetInstance()->listeners();
        delete listeners.Release(listeners.default_result_printer());
        delete listeners.Release(listeners.default_xml_generator());
        listeners.Append(new RankReporter{rank});
    }
    int const mine = RUN_ALL_TESTS();
    int const skipped = evener::support::all_skipped() ? 1 : 0;
    int worst = 0;
    int all_skipped = 0;
    MPI_Allreduce(&mine, &worst, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
    MPI_Allreduce(&skipped, &all_skipped, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
    return worst == 0 && all_skipped ? evener::support::exit_skipped : worst;
}

} // namespace

int main(int argc, char** argv) {
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (provided != MPI_THREAD_MULTIPLE) {
        std::fprintf(stderr, "this MPI does not offer MPI_THREAD_MULTIPLE\n");
        MPI_Abort(MPI_COMM_WORLD, 4);
    }
    int const result = run(argc, argv);
    MPI_Finalize();
    return result;
}
