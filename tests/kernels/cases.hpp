// SPDX-License-Identifier: Apache-2.0
#pragma once

// The cases on which back ends are compared with the reference: every operation with prime sizes,
// sizes 0 and 1, both types, accumulating and overwriting, and the aliasing its contract allows.

#include "harness.hpp"

namespace evener::kernels::test {

std::vector<Case> matmul_cases();
std::vector<Case> row_cases();       ///< norm, rotary, swiglu, embedding, cross-entropy
std::vector<Case> attention_cases(); ///< the backward ones take o and lse from the reference
std::vector<Case> vector_cases();    ///< optimizers, conversions, sums

std::vector<Case> all_cases();

Case attention_case(AttentionShape const& shape);
/// o and lse are the reference's results for the same projection.
Case attention_backward_case(AttentionShape const& shape);

} // namespace evener::kernels::test
