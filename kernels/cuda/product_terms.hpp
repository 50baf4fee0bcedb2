// SPDX-License-Identifier: Apache-2.0
#pragma once

// The terms of a matrix product that cuBLASLt does not add itself.

#include "kernels/cuda/operation.hpp"

namespace evener::kernels::cuda {

enum class Product { absent, in_dst }; ///< in_dst: dst holds a b and keeps it

/// Enqueues dst (+)= bias + residual over [m, n] of the shape, as far as these are there; without a
/// product, dst is overwritten, with zeros if there is neither.
void add_terms(MatmulShape const& shape, Product product, Operands operands, Context const& context,
               cudaStream_t stream);

} // namespace evener::kernels::cuda
