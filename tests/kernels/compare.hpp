// SPDX-License-Identifier: Apache-2.0
#pragma once

// Results of a back end against those of the reference, element by element.

#include "harness.hpp"

namespace evener::kernels::test {

struct Comparison {
    double worst = 0;      ///< largest difference, as a share of what is allowed
    std::string complaint; ///< about the first element that differs by more; empty when none does
};

/// Contents of each operand after the runs, as run() returns them.
Comparison compare(Case const& test, std::vector<std::vector<double>> const& expected,
                   std::vector<std::vector<double>> const& actual);

/// Runs the case on both tables, with operands aligned and at odd addresses, and twice: the second
/// time every bit must be the same. A case that the device refuses rightly is a good one.
Comparison compare_with_reference(OpenTable const& open, OpenTable const& reference,
                                  Case const& test);

/// Products of bfloat16 on a device that lacks them: refused, as nothing else is.
bool lacks_products(OpenTable const& open, Case const& test);

/// Matrix units ask for aligned operands: others may take another algorithm. All else has one order.
bool depends_on_addresses(OperationKind kind);

} // namespace evener::kernels::test
