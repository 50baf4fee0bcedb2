// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one table of tolerances of kernel tests. A result may differ from the reference by
//   c(operation) * eps(type of the result or of what it is made from) * sqrt(k)
// times the largest magnitude of the reference result, k being the number of terms in its sums.
// A change of c is a commit of its own, with a reason.

#include "kernels/table.hpp"

#include <cmath>

namespace evener::kernels::test {

/// Distance from 1 to the next number of the type.
inline double eps(Element type) {
    return type == Element::float32 ? 0x1p-23 : 0x1p-7;
}

inline double c(OperationKind kind) {
    switch (kind) {
    case OperationKind::matmul:
        return 1; // pairs in float32, one rounding at the end
    case OperationKind::attention:
        return 2; // weights of the sum are rounded to the compute type
    case OperationKind::attention_backward:
        return 2;
    case OperationKind::convert:
    case OperationKind::clear:
    case OperationKind::embedding:
        return 0; // exact
    case OperationKind::sum_squares:
    case OperationKind::segment_sums:
        return 1e-6; // added in double
    default:
        return 2; // a few roundings per element
    }
}

inline double tolerance(OperationKind kind, Element type, std::int64_t k) {
    return c(kind) * eps(type) * std::sqrt(static_cast<double>(k < 1 ? 1 : k));
}

} // namespace evener::kernels::test
