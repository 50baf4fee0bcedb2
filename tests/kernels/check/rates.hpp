// SPDX-License-Identifier: Apache-2.0
#pragma once

// How fast the operations of a device with a memory of its own are, beside what it can do: copies
// for those that move bytes, the best square product for those that multiply.

#include "kernels/harness.hpp"

namespace evener::kernels::test {

struct RateCase {
    Case test;                  ///< its operands say what is moved
    double operations = 0;      ///< multiplications and additions; 0: bound by memory
    std::int64_t bytes = 0;     ///< read and written at least
    bool sets_the_rate = false; ///< a square product that others are compared with
};

/// Every operation in the sizes of a model that fills a GPU; `small`: of one that fills nothing,
/// for a run whose times mean nothing.
std::vector<RateCase> rate_cases(bool small);

/// Prints a line per case.
void print_rates(OpenTable const& open, bool small);

} // namespace evener::kernels::test
