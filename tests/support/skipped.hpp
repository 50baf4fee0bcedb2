// SPDX-License-Identifier: Apache-2.0
#pragma once

// A test program in which every test skipped itself must not look like one that passed.

#include <gtest/gtest.h>

namespace evener::support {

/// What ctest reads as "skipped" (SKIP_RETURN_CODE in evener_add_test).
inline constexpr int exit_skipped = 77;

/// After RUN_ALL_TESTS: whether there were tests and all of them skipped themselves.
inline bool all_skipped() {
    testing::UnitTest const& tests = *testing::UnitTest::GetInstance();
    return tests.skipped_test_count() > 0 &&
           tests.skipped_test_count() == tests.test_to_run_count();
}

} // namespace evener::support
