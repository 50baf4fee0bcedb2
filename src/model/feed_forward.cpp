// SPDX-License-Identifier: Apache-2.0
// Pre-norm SwiGLU feed-forward with its residual:
//   xn = rms_norm(x),  gu = xn W_gate_up^T + b,  a = silu(gate) * up,  y = x + a W_down^T + b_down
// Forward keeps x, rstd and gu. BackwardInput leaves dy, dgu and dxn; BackwardWeight computes xn
// and a again (one pass each; both are operands of a product).
#include "model/builder.hpp"

#include <fmt/format.h>

#include <cmath>

namespace evener::model {

namespace {

class FeedForward final : public Layer {
  public:
    FeedForward(ModelConfig const& config, std::int64_t decoder_layer)
        : config_{config}, decoder_layer_{decoder_layer} {
        std::string const prefix = fmt::format("model.layers.{}.", decoder_layer);
        std::int64_t const hidden = config.hidden_size;
        auto const output_std = static_cast<float>(
            config.init_std / std::sqrt(2.0 * static_cast<double>(config.decoder_layers)));
        add({.name = prefix + "post_attention_layernorm.weight",
             .rows = hidden,
             .vector = true,
             .initial = Initial::ones});
        gate_up_ = std::ssize(parameters_);
        for (char const* name : {"gate", "up"})
            add({.name = fmt::format("{}mlp.{}_proj.weight", prefix, name),
                 .rows = config.ffn_size,
                 .cols = hidden,
                 .decayed = true,
                 .init_std = config.init_std});
        gate_up_bias_ = std::ssize(parameters_);
        if (config.mlp_bias)
            for (char const* name : {"gate", "up"})
                add({.name = fmt::format("{}mlp.{}_proj.bias", prefix, name),
                     .rows = config.ffn_size,
                     .vector = true,
                     .initial = Initial::zeros});
        down_ = std::ssize(parameters_);
        add({.name = prefix + "mlp.down_proj.weight",
             .rows = hidden,
             .cols = config.ffn_size,
             .decayed = true,
             .init_std = output_std});
        down_bias_ = std::ssize(parameters_);
        if (config.mlp_bias)
            add({.name = prefix + "mlp.down_proj.bias",
                 .rows = hidden,
                 .vector = true,
                 .initial = Initial::zeros});
    }

    std::string_view kind() const override { return "feed_forward"; }
    std::string name() const override { return fmt::format("feed-forward {}", decoder_layer_); }
    std::vector<Parameter> const& parameters() const override { return parameters_; }

    double forward_flops() const override {
        return 6.0 * static_cast<double>(config_.sequence_length) *
               static_cast<double>(config_.hidden_size * config_.ffn_size);
    }

    LayerOperations operations(std::int64_t sequences, core::DType compute) const override {
        LayerBuilder build{config_, sequences, compute};
        Kept kept;
        build.keep(config_.hidden_size, build.type); // the input
        kept.rstd = build.keep(1, kernels::Element::float32);
        kept.gate_up = build.keep(2 * config_.ffn_size, build.type);
        build.keep_for_weights(config_.hidden_size, build.type); // the gradient of the output
        kept.d_gate_up = build.keep_for_weights(2 * config_.ffn_size, build.type);
        kept.dxn = build.keep_for_weights(config_.hidden_size, build.type);
        forward(build, Phase::forward, kept);
        forward(build, Phase::evaluate, kept);
        backward_input(build, kept);
        backward_weight(build, kept);
        return build.take();
    }

  private:
    struct Kept {
        Operand rstd, gate_up;
        Operand d_gate_up, dxn;
    };

    void add(Parameter parameter) { parameters_.push_back(std::move(parameter)); }

    kernels::RmsNormShape norm_shape(LayerBuilder const& build) const {
        return {build.rows, config_.hidden_size, build.type, config_.norm_epsilon, false};
    }

    void forward(LayerBuilder& build, Phase phase, Kept const& kept) const {
        std::int64_t const hidden = config_.hidden_size;
        std::int64_t const ffn = config_.ffn_size;
        build.begin(phase);
        Operand const xn = build.scratch(build.rows * hidden, build.type);
        Operand const a = build.scratch(build.rows * ffn, build.type);
        build.rms_norm(norm_shape(build), layer_input, parameter(0), xn, kept.rstd);
        build.matmul({.m = build.rows,
                      .n = 2 * ffn,
                      .k = hidden,
                      .transpose_b = true,
                      .bias = config_.mlp_bias,
                      .src = build.type,
                      .dst = build.type},
                     xn, parameter(gate_up_),
                     config_.mlp_bias ? parameter(gate_up_bias_) : no_operand, no_operand,
                     kept.gate_up);
        build.swiglu({build.rows, ffn, build.type}, kept.gate_up, a);
        build.matmul({.m = build.rows,
                      .n = hidden,
                      .k = ffn,
                      .transpose_b = true,
                      .bias = config_.mlp_bias,
                      .residual = true,
                      .src = build.type,
                      .dst = build.type},
                     a, parameter(down_), config_.mlp_bias ? parameter(down_bias_) : no_operand,
                     layer_input, layer_output);
    }

    void backward_input(LayerBuilder& build, Kept const& kept) const {
        std::int64_t const hidden = config_.hidden_size;
        std::int64_t const ffn = config_.ffn_size;
        build.begin(Phase::backward_input);
        Operand const da = build.scratch(build.rows * ffn, build.type);
        build.matmul({.m = build.rows, .n = ffn, .k = hidden, .src = build.type, .dst = build.type},
                     output_gradient, parameter(down_), no_operand, no_operand, da);
        build.swiglu_backward({build.rows, ffn, build.type}, kept.gate_up, da, kept.d_gate_up);
        build.matmul(
            {.m = build.rows, .n = hidden, .k = 2 * ffn, .src = build.type, .dst = build.type},
            kept.d_gate_up, parameter(gate_up_), no_operand, no_operand, kept.dxn);
        build.rms_norm_backward(norm_shape(build), layer_input, parameter(0), kept.rstd, kept.dxn,
                                output_gradient, input_gradient);
    }

    void backward_weight(LayerBuilder& build, Kept const& kept) const {
        std::int64_t const hidden = config_.hidden_size;
        std::int64_t const ffn = config_.ffn_size;
        build.begin(Phase::backward_weight);
        Operand const xn = build.scratch(build.rows * hidden, build.type);
        Operand const a = build.scratch(build.rows * ffn, build.type);
        auto norm = norm_shape(build);
        build.rms_norm_weight_gradient(norm, layer_input, kept.rstd, kept.dxn, gradient(0));
        norm.rstd_given = true;
        build.rms_norm(norm, layer_input, parameter(0), xn, kept.rstd);
        build.matmul({.m = 2 * ffn,
                      .n = hidden,
                      .k = build.rows,
                      .transpose_a = true,
                      .accumulate = true,
                      .src = build.type},
                     kept.d_gate_up, xn, no_operand, no_operand, gradient(gate_up_));
        build.swiglu({build.rows, ffn, build.type}, kept.gate_up, a);
        build.matmul({.m = hidden,
                      .n = ffn,
                      .k = build.rows,
                      .transpose_a = true,
                      .accumulate = true,
                      .src = build.type},
                     output_gradient, a, no_operand, no_operand, gradient(down_));
        if (config_.mlp_bias) {
            build.column_sums({build.rows, 2 * ffn, build.type}, kept.d_gate_up,
                              gradient(gate_up_bias_));
            build.column_sums({build.rows, hidden, build.type}, output_gradient,
                              gradient(down_bias_));
        }
    }

    ModelConfig config_;
    std::int64_t decoder_layer_;
    std::int64_t gate_up_ = 0, gate_up_bias_ = 0, down_ = 0, down_bias_ = 0;
    std::vector<Parameter> parameters_;
};

} // namespace

std::unique_ptr<Layer> make_feed_forward(ModelConfig const& config, std::int64_t decoder_layer) {
    return std::make_unique<FeedForward>(config, decoder_layer);
}

} // namespace evener::model
