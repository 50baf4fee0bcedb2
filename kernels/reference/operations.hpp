// SPDX-License-Identifier: Apache-2.0
#pragma once

// The specification of every operation as naive loops in double. Formulas, shapes, aliasing and
// what is accumulated are stated in the contract of the same name (kernels/<operation>.hpp);
// operands are in the order of its Operand list. T is float, BFloat16 or double (see Wide in
// number.hpp).

#include "kernels/reference/number.hpp"
#include "kernels/table.hpp"

namespace evener::kernels::reference {

/// D is T or Wide<T>. bias and residual are read where the shape says they are there.
template <class T, class D>
void matmul(MatmulShape const& shape, T const* a, T const* b, T const* bias, T const* residual,
            D* dst);

template <class T>
void rms_norm(RmsNormShape const& shape, T const* x, T const* weight, T* y, Wide<T>* rstd);
template <class T>
void rms_norm_backward(RmsNormShape const& shape, T const* x, T const* weight, Wide<T> const* rstd,
                       T const* dy, T const* residual, T* dx);
template <class T>
void rms_norm_weight_gradient(RmsNormShape const& shape, T const* x, Wide<T> const* rstd,
                              T const* dy, Wide<T>* dweight);

template <class T>
void rotary(RotaryShape const& shape, T* qkv);

template <class T>
void attention(AttentionShape const& shape, T const* qkv, T* o, Wide<T>* lse);
template <class T>
void attention_backward(AttentionShape const& shape, T const* qkv, T const* o, Wide<T> const* lse,
                        T const* d_o, T* dqkv);

template <class T>
void swiglu(SwigluShape const& shape, T const* gate_up, T* y);
template <class T>
void swiglu_backward(SwigluShape const& shape, T const* gate_up, T const* dy, T* d_gate_up);

template <class T>
void embedding(EmbeddingShape const& shape, std::int32_t const* tokens, T const* table, T* y);
template <class T>
void embedding_gradient(EmbeddingShape const& shape, std::int32_t const* tokens, T const* dy,
                        Wide<T>* dtable);

/// scale and dlogits are used where shape.gradient is set.
template <class T>
void cross_entropy(CrossEntropyShape const& shape, Wide<T> const* logits,
                   std::int32_t const* targets, float const* scale, Wide<T>* loss, T* dlogits);

template <class W>
void adamw(OptimizerShape const& shape, float* parameters, float* moment1, float* moment2,
           float const* gradients, W* weights, OptimizerScalars const& scalars);
template <class W>
void sgd(OptimizerShape const& shape, float* parameters, float const* gradients, W* weights,
         OptimizerScalars const& scalars);

template <class S, class D>
void convert(ConvertShape const& shape, S const* src, D* dst);
void clear(ClearShape const& shape, std::byte* dst);
template <class T>
void column_sums(ColumnSumsShape const& shape, T const* src, Wide<T>* dst);
void segment_sums(SegmentSumsShape const& shape, float const* src, double* dst);
void sum_squares(SumSquaresShape const& shape, float const* src, double* dst);

} // namespace evener::kernels::reference
