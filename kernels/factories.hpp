// SPDX-License-Identifier: Apache-2.0
#pragma once

// From an operation's shape to the factory that makes it, for back ends that name their factories
// make_<operation>(shape, context) in the namespace of their Context.

#include "kernels/table.hpp"

namespace evener::kernels {

/// What the back end's factory returns; the shape has passed check(). A kind of operation without a
/// factory does not compile.
template <class Context>
auto make_operation_of(OperationShape const& shape, Context const& context)
    -> decltype(make_matmul(shape.matmul, context)) {
    switch (shape.kind) {
    case OperationKind::matmul:
        return make_matmul(shape.matmul, context);
    case OperationKind::rms_norm:
        return make_rms_norm(shape.rms_norm, context);
    case OperationKind::rms_norm_backward:
        return make_rms_norm_backward(shape.rms_norm, context);
    case OperationKind::rms_norm_weight_gradient:
        return make_rms_norm_weight_gradient(shape.rms_norm, context);
    case OperationKind::rotary:
        return make_rotary(shape.rotary, context);
    case OperationKind::attention:
        return make_attention(shape.attention, context);
    case OperationKind::attention_backward:
        return make_attention_backward(shape.attention, context);
    case OperationKind::swiglu:
        return make_swiglu(shape.swiglu, context);
    case OperationKind::swiglu_backward:
        return make_swiglu_backward(shape.swiglu, context);
    case OperationKind::embedding:
        return make_embedding(shape.embedding, context);
    case OperationKind::embedding_gradient:
        return make_embedding_gradient(shape.embedding, context);
    case OperationKind::cross_entropy:
        return make_cross_entropy(shape.cross_entropy, context);
    case OperationKind::adamw:
        return make_adamw(shape.optimizer, context);
    case OperationKind::sgd:
        return make_sgd(shape.optimizer, context);
    case OperationKind::convert:
        return make_convert(shape.convert, context);
    case OperationKind::clear:
        return make_clear(shape.clear, context);
    case OperationKind::column_sums:
        return make_column_sums(shape.column_sums, context);
    case OperationKind::segment_sums:
        return make_segment_sums(shape.segment_sums, context);
    case OperationKind::sum_squares:
        return make_sum_squares(shape.sum_squares, context);
    case OperationKind::count:
        break;
    }
    return nullptr; // check() has refused the others
}

} // namespace evener::kernels
