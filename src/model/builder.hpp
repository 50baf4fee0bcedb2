// SPDX-License-Identifier: Apache-2.0
#pragma once

// Helps a layer kind to write its operations: gives tensors their offsets and keeps the sizes.

#include "model/layer.hpp"

namespace evener::model {

inline constexpr std::int64_t tensor_alignment = 64;

class LayerBuilder {
  public:
    LayerBuilder(ModelConfig const& config, std::int64_t sequences, core::DType compute)
        : rows{sequences * config.sequence_length}, type{static_cast<kernels::Element>(compute)} {}

    std::int64_t const rows;
    kernels::Element const type;

    /// A matrix [rows, cols] in an area that outlives the phase.
    Operand keep(std::int64_t cols, kernels::Element element);
    Operand keep_for_weights(std::int64_t cols, kernels::Element element);

    /// The operations that follow belong to `phase`; its scratch starts empty.
    void begin(Phase phase);
    Operand scratch(std::int64_t elements, std::int64_t bytes_per_element);
    Operand scratch(std::int64_t elements, kernels::Element element) {
        return scratch(elements, kernels::bytes_of(element));
    }

    void load_inputs(Operand dst) { add_load(Operation::Kind::load_inputs, dst); }
    void load_targets(Operand dst) { add_load(Operation::Kind::load_targets, dst); }
    void matmul(kernels::MatmulShape const& shape, Operand a, Operand b, Operand bias,
                Operand residual, Operand dst);
    void rms_norm(kernels::RmsNormShape const& shape, Operand x, Operand weight, Operand y,
                  Operand rstd);
    void rms_norm_backward(kernels::RmsNormShape const& shape, Operand x, Operand weight,
                           Operand rstd, Operand dy, Operand residual, Operand dx);
    void rms_norm_weight_gradient(kernels::RmsNormShape const& shape, Operand x, Operand rstd,
                                  Operand dy, Operand dweight);
    void rotary(kernels::RotaryShape const& shape, Operand qkv);
    void attention(kernels::AttentionShape const& shape, Operand qkv, Operand o, Operand lse);
    void attention_backward(kernels::AttentionShape const& shape, Operand qkv, Operand o,
                            Operand lse, Operand d_o, Operand dqkv);
    void swiglu(kernels::SwigluShape const& shape, Operand gate_up, Operand y);
    void swiglu_backward(kernels::SwigluShape const& shape, Operand gate_up, Operand dy,
                         Operand d_gate_up);
    void embedding(kernels::EmbeddingShape const& shape, Operand tokens, Operand table, Operand y);
    void embedding_gradient(kernels::EmbeddingShape const& shape, Operand tokens, Operand dy,
                            Operand dtable);
    void cross_entropy(kernels::CrossEntropyShape const& shape, Operand logits, Operand targets,
                       Operand loss, Operand dlogits);
    void column_sums(kernels::ColumnSumsShape const& shape, Operand src, Operand dst);
    void segment_sums(kernels::SegmentSumsShape const& shape, Operand src, Operand dst);

    LayerOperations take() { return std::move(result_); }

  private:
    void add(kernels::OperationShape const& shape, std::vector<Operand> operands);
    void add_load(Operation::Kind kind, Operand dst);

    LayerOperations result_;
    Phase phase_ = Phase::forward;
};

/// `operand` moved on by `bytes`.
constexpr Operand at(Operand operand, std::int64_t bytes) {
    return {operand.area, operand.offset + bytes};
}
constexpr Operand parameter(std::int64_t index) {
    return {Area::parameter, index};
}
constexpr Operand gradient(std::int64_t index) {
    return {Area::parameter_gradient, index};
}
inline constexpr Operand no_operand{};
inline constexpr Operand layer_input{Area::kept, 0};
inline constexpr Operand layer_output{Area::output, 0};
inline constexpr Operand output_gradient{Area::kept_for_weights, 0};
inline constexpr Operand input_gradient{Area::grad_input, 0};

} // namespace evener::model
