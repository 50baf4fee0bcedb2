// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every back end asks of a shape before it prepares an operation: the rules stated in the
// contracts, checked in one place so that all back ends refuse the same shapes in the same words.

#include "kernels/table.hpp"

#include <cstdio>
#include <initializer_list>

namespace evener::kernels {

/// Writes the reason (printf style) and returns false, so that a check can `return refuse(...)`.
template <class... Values>
bool refuse(Reason& reason, char const* format, Values... values) {
    if constexpr (sizeof...(values) == 0)
        std::snprintf(reason.text, sizeof reason.text, "%s", format);
    else
        std::snprintf(reason.text, sizeof reason.text, format, values...);
    return false;
}

struct NamedSize {
    char const* name;
    std::int64_t value;
};

inline bool check_sizes(std::initializer_list<NamedSize> sizes, Reason& reason) {
    for (auto const& size : sizes)
        if (size.value < 0)
            return refuse(reason, "%s is %lld (a size cannot be negative)", size.name,
                          static_cast<long long>(size.value));
    return true;
}

inline bool check_heads(std::int64_t query_heads, std::int64_t key_heads, Reason& reason) {
    if (query_heads == 0 && key_heads == 0)
        return true;
    if (key_heads == 0 || query_heads % key_heads != 0)
        return refuse(reason, "%lld query heads cannot share %lld key heads (not a multiple)",
                      static_cast<long long>(query_heads), static_cast<long long>(key_heads));
    return true;
}

inline bool check(MatmulShape const& shape, Reason& reason) {
    if (!check_sizes({{"m", shape.m}, {"n", shape.n}, {"k", shape.k}}, reason))
        return false;
    if (shape.accumulate && (shape.bias || shape.residual))
        return refuse(reason, "a product that accumulates takes neither bias nor residual");
    if (shape.dst != shape.src && shape.dst != Element::float32)
        return refuse(reason, "the product of float32 matrices is written as float32 only");
    return true;
}

inline bool check(RmsNormShape const& shape, Reason& reason) {
    return check_sizes({{"rows", shape.rows}, {"cols", shape.cols}}, reason);
}

inline bool check(RotaryShape const& shape, Reason& reason) {
    if (!check_sizes({{"rows", shape.rows},
                      {"sequence_length", shape.sequence_length},
                      {"query_heads", shape.query_heads},
                      {"key_heads", shape.key_heads},
                      {"head_size", shape.head_size}},
                     reason))
        return false;
    if (shape.head_size % 2 != 0)
        return refuse(reason, "head_size is %lld (rotary embedding turns pairs; use an even size)",
                      static_cast<long long>(shape.head_size));
    if (shape.rows > 0 && shape.sequence_length == 0)
        return refuse(reason, "sequence_length is 0 although there are rows");
    return check_heads(shape.query_heads, shape.key_heads, reason);
}

inline bool check(AttentionShape const& shape, Reason& reason) {
    return check_sizes({{"sequences", shape.sequences},
                        {"sequence_length", shape.sequence_length},
                        {"query_heads", shape.query_heads},
                        {"key_heads", shape.key_heads},
                        {"head_size", shape.head_size}},
                       reason) &&
           check_heads(shape.query_heads, shape.key_heads, reason);
}

inline bool check(SwigluShape const& shape, Reason& reason) {
    return check_sizes({{"rows", shape.rows}, {"cols", shape.cols}}, reason);
}

inline bool check(EmbeddingShape const& shape, Reason& reason) {
    return check_sizes(
        {{"rows", shape.rows}, {"cols", shape.cols}, {"vocabulary", shape.vocabulary}}, reason);
}

inline bool check(CrossEntropyShape const& shape, Reason& reason) {
    return check_sizes({{"rows", shape.rows}, {"cols", shape.cols}}, reason);
}

inline bool check(OptimizerShape const& shape, Reason& reason) {
    return check_sizes({{"elements", shape.elements}}, reason);
}

inline bool check(ConvertShape const& shape, Reason& reason) {
    return check_sizes({{"elements", shape.elements}}, reason);
}

inline bool check(ClearShape const& shape, Reason& reason) {
    return check_sizes({{"bytes", shape.bytes}}, reason);
}

inline bool check(ColumnSumsShape const& shape, Reason& reason) {
    return check_sizes({{"rows", shape.rows}, {"cols", shape.cols}}, reason);
}

inline bool check(SegmentSumsShape const& shape, Reason& reason) {
    return check_sizes({{"segments", shape.segments}, {"length", shape.length}}, reason);
}

inline bool check(SumSquaresShape const& shape, Reason& reason) {
    return check_sizes({{"elements", shape.elements}}, reason);
}

/// Calls `visitor` with the member of the union that `kind` names, or `otherwise()` when the kind
/// is none of this build.
template <class Visitor, class Otherwise>
decltype(auto) visit(OperationShape const& shape, Visitor&& visitor, Otherwise&& otherwise) {
    using Kind = OperationKind;
    switch (shape.kind) {
    case Kind::matmul:
        return visitor(shape.matmul);
    case Kind::rms_norm:
    case Kind::rms_norm_backward:
    case Kind::rms_norm_weight_gradient:
        return visitor(shape.rms_norm);
    case Kind::rotary:
        return visitor(shape.rotary);
    case Kind::attention:
    case Kind::attention_backward:
        return visitor(shape.attention);
    case Kind::swiglu:
    case Kind::swiglu_backward:
        return visitor(shape.swiglu);
    case Kind::embedding:
    case Kind::embedding_gradient:
        return visitor(shape.embedding);
    case Kind::cross_entropy:
        return visitor(shape.cross_entropy);
    case Kind::adamw:
    case Kind::sgd:
        return visitor(shape.optimizer);
    case Kind::convert:
        return visitor(shape.convert);
    case Kind::clear:
        return visitor(shape.clear);
    case Kind::column_sums:
        return visitor(shape.column_sums);
    case Kind::segment_sums:
        return visitor(shape.segment_sums);
    case Kind::sum_squares:
        return visitor(shape.sum_squares);
    case Kind::count:
        break;
    }
    return otherwise();
}

/// Whether the shape obeys its contract; else the reason.
inline bool check(OperationShape const& shape, Reason& reason) {
    return visit(
        shape, [&](auto const& member) { return check(member, reason); },
        [&] {
            return refuse(reason, "operation kind %u is unknown to this build",
                          static_cast<unsigned>(shape.kind));
        });
}

} // namespace evener::kernels
