// SPDX-License-Identifier: Apache-2.0
// Pre-norm self-attention with its residual:
//   xn = rms_norm(x),  qkv = xn W_qkv^T + b_qkv,  q, k rotated,  o = attention(q, k, v),
//   y = x + o W_o^T + b_o
// Forward keeps x, rstd, the rotated qkv, o and lse. BackwardInput leaves dy, dqkv and dxn for
// BackwardWeight, which computes xn again from x and rstd (one pass over x; a product needs it).
#include "model/builder.hpp"

#include <fmt/format.h>

#include <cmath>

namespace evener::model {

namespace {

class Attention final : public Layer {
  public:
    Attention(ModelConfig const& config, std::int64_t decoder_layer)
        : config_{config}, decoder_layer_{decoder_layer}, q_size_{config.heads * config.head_size},
          kv_size_{config.kv_heads * config.head_size}, qkv_size_{q_size_ + 2 * kv_size_} {
        std::string const prefix = fmt::format("model.layers.{}.", decoder_layer);
        std::int64_t const hidden = config.hidden_size;
        auto const output_std = static_cast<float>(
            config.init_std / std::sqrt(2.0 * static_cast<double>(config.decoder_layers)));
        add({.name = prefix + "input_layernorm.weight",
             .rows = hidden,
             .vector = true,
             .initial = Initial::ones});
        qkv_ = std::ssize(parameters_);
        add({.name = prefix + "self_attn.q_proj.weight",
             .rows = q_size_,
             .cols = hidden,
             .decayed = true,
             .init_std = config.init_std});
        for (char const* name : {"k", "v"})
            add({.name = fmt::format("{}self_attn.{}_proj.weight", prefix, name),
                 .rows = kv_size_,
                 .cols = hidden,
                 .decayed = true,
                 .init_std = config.init_std});
        qkv_bias_ = std::ssize(parameters_);
        if (config.attention_bias) {
            add({.name = prefix + "self_attn.q_proj.bias",
                 .rows = q_size_,
                 .vector = true,
                 .initial = Initial::zeros});
            for (char const* name : {"k", "v"})
                add({.name = fmt::format("{}self_attn.{}_proj.bias", prefix, name),
                     .rows = kv_size_,
                     .vector = true,
                     .initial = Initial::zeros});
        }
        out_ = std::ssize(parameters_);
        add({.name = prefix + "self_attn.o_proj.weight",
             .rows = hidden,
             .cols = q_size_,
             .decayed = true,
             .init_std = output_std});
        out_bias_ = std::ssize(parameters_);
        if (config.attention_output_bias)
            add({.name = prefix + "self_attn.o_proj.bias",
                 .rows = hidden,
                 .vector = true,
                 .initial = Initial::zeros});
    }

    std::string_view kind() const override { return "attention"; }
    std::string name() const override { return fmt::format("attention {}", decoder_layer_); }
    std::vector<Parameter> const& parameters() const override { return parameters_; }

    double forward_flops() const override {
        auto const length = static_cast<double>(config_.sequence_length);
        auto const projections = static_cast<double>((qkv_size_ + q_size_) * config_.hidden_size);
        // Causal: half of the length x length products q k^T and p v.
        return length * (2 * projections + 2 * length * static_cast<double>(q_size_));
    }

    LayerOperations operations(std::int64_t sequences, core::DType compute) const override {
        LayerBuilder build{config_, sequences, compute};
        Kept const kept = keep(build);
        forward(build, Phase::forward, kept, sequences);
        forward(build, Phase::evaluate, kept, sequences);
        backward_input(build, kept, sequences);
        backward_weight(build, kept);
        return build.take();
    }

  private:
    struct Kept {
        Operand rstd, qkv, o, lse;
        Operand dqkv, dxn;
    };

    void add(Parameter parameter) { parameters_.push_back(std::move(parameter)); }

    Kept keep(LayerBuilder& build) const {
        Kept kept;
        build.keep(config_.hidden_size, build.type); // the input
        kept.rstd = build.keep(1, kernels::Element::float32);
        kept.qkv = build.keep(qkv_size_, build.type);
        kept.o = build.keep(q_size_, build.type);
        kept.lse = build.keep(config_.heads, kernels::Element::float32);
        build.keep_for_weights(config_.hidden_size, build.type); // the gradient of the output
        kept.dqkv = build.keep_for_weights(qkv_size_, build.type);
        kept.dxn = build.keep_for_weights(config_.hidden_size, build.type);
        return kept;
    }

    kernels::RmsNormShape norm_shape(LayerBuilder const& build) const {
        return {build.rows, config_.hidden_size, build.type, config_.norm_epsilon, false};
    }

    kernels::RotaryShape rotary_shape(LayerBuilder const& build, bool inverse) const {
        return {build.rows,        config_.sequence_length, config_.heads, config_.kv_heads,
                config_.head_size, config_.rope_theta,      inverse,       build.type};
    }

    kernels::AttentionShape attention_shape(LayerBuilder const& build,
                                            std::int64_t sequences) const {
        return {sequences,        config_.sequence_length, config_.heads,
                config_.kv_heads, config_.head_size,       build.type};
    }

    void forward(LayerBuilder& build, Phase phase, Kept const& kept, std::int64_t sequences) const {
        std::int64_t const hidden = config_.hidden_size;
        build.begin(phase);
        Operand const xn = build.scratch(build.rows * hidden, build.type);
        build.rms_norm(norm_shape(build), layer_input, parameter(0), xn, kept.rstd);
        build.matmul({.m = build.rows,
                      .n = qkv_size_,
                      .k = hidden,
                      .transpose_b = true,
                      .bias = config_.attention_bias,
                      .src = build.type,
                      .dst = build.type},
                     xn, parameter(qkv_),
                     config_.attention_bias ? parameter(qkv_bias_) : no_operand, no_operand,
                     kept.qkv);
        build.rotary(rotary_shape(build, false), kept.qkv);
        build.attention(attention_shape(build, sequences), kept.qkv, kept.o, kept.lse);
        build.matmul({.m = build.rows,
                      .n = hidden,
                      .k = q_size_,
                      .transpose_b = true,
                      .bias = config_.attention_output_bias,
                      .residual = true,
                      .src = build.type,
                      .dst = build.type},
                     kept.o, parameter(out_),
                     config_.attention_output_bias ? parameter(out_bias_) : no_operand, layer_input,
                     layer_output);
    }

    void backward_input(LayerBuilder& build, Kept const& kept, std::int64_t sequences) const {
        std::int64_t const hidden = config_.hidden_size;
        build.begin(Phase::backward_input);
        Operand const d_o = build.scratch(build.rows * q_size_, build.type);
        build.matmul(
            {.m = build.rows, .n = q_size_, .k = hidden, .src = build.type, .dst = build.type},
            output_gradient, parameter(out_), no_operand, no_operand, d_o);
        build.attention_backward(attention_shape(build, sequences), kept.qkv, kept.o, kept.lse, d_o,
                                 kept.dqkv);
        build.rotary(rotary_shape(build, true), kept.dqkv);
        build.matmul(
            {.m = build.rows, .n = hidden, .k = qkv_size_, .src = build.type, .dst = build.type},
            kept.dqkv, parameter(qkv_), no_operand, no_operand, kept.dxn);
        build.rms_norm_backward(norm_shape(build), layer_input, parameter(0), kept.rstd, kept.dxn,
                                output_gradient, input_gradient);
    }

    void backward_weight(LayerBuilder& build, Kept const& kept) const {
        std::int64_t const hidden = config_.hidden_size;
        build.begin(Phase::backward_weight);
        Operand const xn = build.scratch(build.rows * hidden, build.type);
        auto norm = norm_shape(build);
        build.rms_norm_weight_gradient(norm, layer_input, kept.rstd, kept.dxn, gradient(0));
        norm.rstd_given = true;
        build.rms_norm(norm, layer_input, parameter(0), xn, kept.rstd);
        build.matmul({.m = qkv_size_,
                      .n = hidden,
                      .k = build.rows,
                      .transpose_a = true,
                      .accumulate = true,
                      .src = build.type},
                     kept.dqkv, xn, no_operand, no_operand, gradient(qkv_));
        if (config_.attention_bias)
            build.column_sums({build.rows, qkv_size_, build.type}, kept.dqkv, gradient(qkv_bias_));
        build.matmul({.m = hidden,
                      .n = q_size_,
                      .k = build.rows,
                      .transpose_a = true,
                      .accumulate = true,
                      .src = build.type},
                     output_gradient, kept.o, no_operand, no_operand, gradient(out_));
        if (config_.attention_output_bias)
            build.column_sums({build.rows, hidden, build.type}, output_gradient,
                              gradient(out_bias_));
    }

    ModelConfig config_;
    std::int64_t decoder_layer_;
    std::int64_t q_size_, kv_size_, qkv_size_;
    std::int64_t qkv_ = 0, qkv_bias_ = 0, out_ = 0, out_bias_ = 0; // indices into parameters_
    std::vector<Parameter> parameters_;
};

} // namespace

std::unique_ptr<Layer> make_attention(ModelConfig const& config, std::int64_t decoder_layer) {
    return std::make_unique<Attention>(config, decoder_layer);
}

} // namespace evener::model
