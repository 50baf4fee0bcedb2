// SPDX-License-Identifier: Apache-2.0
#pragma once

// Attention without tensor cores: any head size, both types, pointers aligned to their type.

#include "kernels/cuda/operation.hpp"

namespace evener::kernels::cuda {

/// Refuses what the kernels cannot count in 32 bits: blocks of a launch and the sizes they work in.
/// Throws Refused.
void require_countable(AttentionShape const& shape);

/// Operands as AttentionOperand. The shape has at least one row and one head.
void attention_general(AttentionShape const& shape, Operands in, cudaStream_t stream);

/// Operands as AttentionBackwardOperand, after make_statistics. The shape has at least one row and
/// a positive number of heads of a positive size.
void attention_backward_general(AttentionShape const& shape, Operands in,
                                struct QueryStatistics const* statistics, cudaStream_t stream);

} // namespace evener::kernels::cuda
