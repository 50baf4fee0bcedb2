// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tests have three sizes from one list of seeds: full (the counts a test states), ci (a tenth) and
// quick (a fiftieth). The environment variable EVENER_TEST_SIZE chooses (default ci). A smaller
// size takes the first seeds of the same list; EVENER_TEST_SEED=N runs seed N alone, to repeat a
// failure.

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace evener::support {

enum class Size { quick, ci, full };

/// What EVENER_TEST_SIZE says; throws core::ConfigError when that is no size.
Size size();

/// How many of `full_count` cases to run at this size: all, a tenth, a fiftieth, rounded up; never
/// fewer than 2 (or full_count).
int count(int full_count);

/// The first count(full_count) seeds of the list of the test with this name.
std::vector<std::uint64_t> seeds(std::string_view test, int full_count);

/// One random value; the same for the same seed. `size` (0 to 100) limits containers and numbers.
template <class T>
T draw(rc::Gen<T> const& generator, std::uint64_t seed, int size = 50) {
    return generator(rc::Random{seed}, size).value();
}

/// Runs a RapidCheck property once per seed, shrinks the first counterexample and fails with it.
/// The size of the generated values (0 to 100) follows from the seed too.
template <class Property>
void check_property(std::string_view test, int full_count, Property const& property) {
    auto const cases = rc::detail::toProperty(property);
    for (std::uint64_t const seed : seeds(test, full_count)) {
        int const size = static_cast<int>(seed % 101);
        rc::Gen<rc::detail::CaseDescription> const sized{
            [&](rc::Random const& random, int) { return cases(random, size); }};
        rc::detail::TestParams params;
        params.seed = seed;
        params.maxSuccess = 1;
        rc::detail::TestMetadata metadata;
        metadata.id = test;
        metadata.description = test;
        auto const result = rc::detail::checkProperty(sized, metadata, params);
        if (!result.template is<rc::detail::SuccessResult>()) {
            std::ostringstream text;
            rc::detail::printResultMessage(result, text);
            FAIL() << test << ", EVENER_TEST_SEED=" << seed << "\n" << text.str();
        }
    }
}

} // namespace evener::support
