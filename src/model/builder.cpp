// SPDX-License-Identifier: Apache-2.0
#include "model/builder.hpp"

namespace evener::model {

namespace {

kernels::OperationShape shape_of(kernels::OperationKind kind) {
    kernels::OperationShape shape;
    shape.kind = kind;
    return shape;
}

} // namespace

Operand LayerBuilder::keep(std::int64_t cols, kernels::Element element) {
    Operand const operand{Area::kept, result_.kept_bytes};
    result_.kept_bytes +=
        core::round_up(rows * cols * kernels::bytes_of(element), tensor_alignment);
    return operand;
}

Operand LayerBuilder::keep_for_weights(std::int64_t cols, kernels::Element element) {
    Operand const operand{Area::kept_for_weights, result_.kept_for_weights_bytes};
    result_.kept_for_weights_bytes +=
        core::round_up(rows * cols * kernels::bytes_of(element), tensor_alignment);
    return operand;
}

void LayerBuilder::begin(Phase phase) {
    phase_ = phase;
}

Operand LayerBuilder::scratch(std::int64_t elements, std::int64_t bytes_per_element) {
    std::int64_t& used = result_.scratch_bytes[static_cast<std::size_t>(phase_)];
    Operand const operand{Area::scratch, used};
    used += core::round_up(elements * bytes_per_element, tensor_alignment);
    return operand;
}

void LayerBuilder::add(kernels::OperationShape const& shape, std::vector<Operand> operands) {
    result_.phases[static_cast<std::size_t>(phase_)].push_back(
        Operation{Operation::Kind::kernel, shape, std::move(operands)});
}

void LayerBuilder::add_load(Operation::Kind kind, Operand dst) {
    result_.phases[static_cast<std::size_t>(phase_)].push_back(
        Operation{kind, kernels::OperationShape{}, {dst}});
}

void LayerBuilder::matmul(kernels::MatmulShape const& shape, Operand a, Operand b, Operand bias,
                          Operand residual, Operand dst) {
    auto operation = shape_of(kernels::OperationKind::matmul);
    operation.matmul = shape;
    add(operation, {a, b, bias, residual, dst});
}

void LayerBuilder::rms_norm(kernels::RmsNormShape const& shape, Operand x, Operand weight,
                            Operand y, Operand rstd) {
    auto operation = shape_of(kernels::OperationKind::rms_norm);
    operation.rms_norm = shape;
    add(operation, {x, weight, y, rstd});
}

void LayerBuilder::rms_norm_backward(kernels::RmsNormShape const& shape, Operand x, Operand weight,
                                     Operand rstd, Operand dy, Operand residual, Operand dx) {
    auto operation = shape_of(kernels::OperationKind::rms_norm_backward);
    operation.rms_norm = shape;
    add(operation, {x, weight, rstd, dy, residual, dx});
}

void LayerBuilder::rms_norm_weight_gradient(kernels::RmsNormShape const& shape, Operand x,
                                            Operand rstd, Operand dy, Operand dweight) {
    auto operation = shape_of(kernels::OperationKind::rms_norm_weight_gradient);
    operation.rms_norm = shape;
    add(operation, {x, rstd, dy, dweight});
}

void LayerBuilder::rotary(kernels::RotaryShape const& shape, Operand qkv) {
    auto operation = shape_of(kernels::OperationKind::rotary);
    operation.rotary = shape;
    add(operation, {qkv});
}

void LayerBuilder::attention(kernels::AttentionShape const& shape, Operand qkv, Operand o,
                             Operand lse) {
    auto operation = shape_of(kernels::OperationKind::attention);
    operation.attention = shape;
    add(operation, {qkv, o, lse});
}

void LayerBuilder::attention_backward(kernels::AttentionShape const& shape, Operand qkv, Operand o,
                                      Operand lse, Operand d_o, Operand dqkv) {
    auto operation = shape_of(kernels::OperationKind::attention_backward);
    operation.attention = shape;
    add(operation, {qkv, o, lse, d_o, dqkv});
}

void LayerBuilder::swiglu(kernels::SwigluShape const& shape, Operand gate_up, Operand y) {
    auto operation = shape_of(kernels::OperationKind::swiglu);
    operation.swiglu = shape;
    add(operation, {gate_up, y});
}

void LayerBuilder::swiglu_backward(kernels::SwigluShape const& shape, Operand gate_up, Operand dy,
                                   Operand d_gate_up) {
    auto operation = shape_of(kernels::OperationKind::swiglu_backward);
    operation.swiglu = shape;
    add(operation, {gate_up, dy, d_gate_up});
}

void LayerBuilder::embedding(kernels::EmbeddingShape const& shape, Operand tokens, Operand table,
                             Operand y) {
    auto operation = shape_of(kernels::OperationKind::embedding);
    operation.embedding = shape;
    add(operation, {tokens, table, y});
}

void LayerBuilder::embedding_gradient(kernels::EmbeddingShape const& shape, Operand tokens,
                                      Operand dy, Operand dtable) {
    auto operation = shape_of(kernels::OperationKind::embedding_gradient);
    operation.embedding = shape;
    add(operation, {tokens, dy, dtable});
}

void LayerBuilder::cross_entropy(kernels::CrossEntropyShape const& shape, Operand logits,
                                 Operand targets, Operand loss, Operand dlogits) {
    auto operation = shape_of(kernels::OperationKind::cross_entropy);
    operation.cross_entropy = shape;
    Operand const scale = shape.gradient ? Operand{Area::loss_scale, 0} : no_operand;
    add(operation, {logits, targets, scale, loss, dlogits});
}

void LayerBuilder::column_sums(kernels::ColumnSumsShape const& shape, Operand src, Operand dst) {
    auto operation = shape_of(kernels::OperationKind::column_sums);
    operation.column_sums = shape;
    add(operation, {src, dst});
}

void LayerBuilder::segment_sums(kernels::SegmentSumsShape const& shape, Operand src, Operand dst) {
    auto operation = shape_of(kernels::OperationKind::segment_sums);
    operation.segment_sums = shape;
    add(operation, {src, dst});
}

} // namespace evener::model
