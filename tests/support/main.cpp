// SPDX-License-Identifier: Apache-2.0

// Main of the tests that run in one process. Exit code 77 tells ctest that everything was skipped.

#include "support/skipped.hpp"

#include <gtest/gtest.h>

int main(int argc, char** argv) {
    testing::InitGoogleTest(&argc, argv);
    int const result = RUN_ALL_TESTS();
    return result == 0 && evener::support::all_skipped() ? evener::support::exit_skipped : result;
}
