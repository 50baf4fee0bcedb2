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

struct Size {
    std::int64_t rows;
    std::int64_t cols;
};

// The cases of one size, as many as the contract has forms of it.
Case matmul_case(MatmulShape const& shape, char const* label, bool in_place = false);
void add_rms_norm(std::vector<Case>& cases, Size size, Element type);
void add_swiglu(std::vector<Case>& cases, Size size, Element type);
void add_embedding(std::vector<Case>& cases, Size size, Element type, std::int64_t vocabulary);
void add_cross_entropy(std::vector<Case>& cases, Size size, Element type);
Case rotary_case(RotaryShape const& shape, char const* label);
Case column_sums_case(Size size, Element type);
/// Optimizers, conversions, clearing and sums of so many elements.
void add_vectors(std::vector<Case>& cases, std::int64_t elements);
Case attention_case(AttentionShape const& shape);
/// o and lse are the reference's results for the same projection.
Case attention_backward_case(AttentionShape const& shape);

} // namespace evener::kernels::test
