// SPDX-License-Identifier: Apache-2.0
#pragma once

// The factory of each operation. Shapes have passed check() (kernels/check.hpp); operands are in
// the order of the contract's Operand list.

#include "kernels/cuda/operation.hpp"

namespace evener::kernels::cuda {

OperationPtr make_matmul(MatmulShape const& shape, Context const& context);

OperationPtr make_rms_norm(RmsNormShape const& shape, Context const& context);
OperationPtr make_rms_norm_backward(RmsNormShape const& shape, Context const& context);
OperationPtr make_rms_norm_weight_gradient(RmsNormShape const& shape, Context const& context);

OperationPtr make_rotary(RotaryShape const& shape, Context const& context);

OperationPtr make_attention(AttentionShape const& shape, Context const& context);
OperationPtr make_attention_backward(AttentionShape const& shape, Context const& context);

OperationPtr make_swiglu(SwigluShape const& shape, Context const& context);
OperationPtr make_swiglu_backward(SwigluShape const& shape, Context const& context);

OperationPtr make_embedding(EmbeddingShape const& shape, Context const& context);
OperationPtr make_embedding_gradient(EmbeddingShape const& shape, Context const& context);

OperationPtr make_cross_entropy(CrossEntropyShape const& shape, Context const& context);

OperationPtr make_adamw(OptimizerShape const& shape, Context const& context);
OperationPtr make_sgd(OptimizerShape const& shape, Context const& context);

OperationPtr make_convert(ConvertShape const& shape, Context const& context);
OperationPtr make_clear(ClearShape const& shape, Context const& context);
OperationPtr make_column_sums(ColumnSumsShape const& shape, Context const& context);
OperationPtr make_segment_sums(SegmentSumsShape const& shape, Context const& context);
OperationPtr make_sum_squares(SumSquaresShape const& shape, Context const& context);

} // namespace evener::kernels::cuda
