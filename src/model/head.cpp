// SPDX-License-Identifier: Apache-2.0
// Final norm, projection to the vocabulary and cross-entropy. Logits are float32 and exist for one
// slice of rows at a time. In training Forward keeps only its input: BackwardInput makes logits,
// loss, both gradients and the norm's in one pass, so nothing is computed twice and BackwardWeight
// is empty.
#include "model/builder.hpp"

#include <algorithm>

namespace evener::model {

namespace {

/// Logits of a slice take about this much: enough rows for a fast product, little memory.
constexpr std::int64_t slice_bytes = std::int64_t{8} << 20;

class Head final : public Layer {
  public:
    explicit Head(ModelConfig const& config) : config_{config} {
        parameters_.push_back({.name = "model.norm.weight",
                               .rows = config.hidden_size,
                               .vector = true,
                               .initial = Initial::ones});
        parameters_.push_back(
            {.name = config.tied_embeddings ? "model.embed_tokens.weight" : "lm_head.weight",
             .rows = config.vocabulary,
             .cols = config.hidden_size,
             .decayed = true,
             .init_std = config.init_std});
    }

    std::string_view kind() const override { return "head"; }
    std::vector<Parameter> const& parameters() const override { return parameters_; }
    bool has_output() const override { return false; }
    bool gradients_in_backward_input() const override { return true; }

    double forward_flops() const override {
        return 2.0 * static_cast<double>(config_.sequence_length) *
               static_cast<double>(config_.hidden_size * config_.vocabulary);
    }

    LayerOperations operations(std::int64_t sequences, core::DType compute) const override {
        LayerBuilder build{config_, sequences, compute};
        build.keep(config_.hidden_size, build.type); // the input
        pass(build, Phase::evaluate, sequences);
        pass(build, Phase::backward_input, sequences);
        next_token(build);
        return build.take();
    }

  private:
    void next_token(LayerBuilder& build) const {
        std::int64_t const hidden = config_.hidden_size;
        build.begin(Phase::next_token);
        Operand const xn = build.scratch(hidden, build.type);
        Operand const rstd = build.scratch(1, kernels::Element::float32);
        build.rms_norm({1, hidden, build.type, config_.norm_epsilon, false}, layer_input,
                       parameter(0), xn, rstd);
        build.matmul(
            {.m = 1, .n = config_.vocabulary, .k = hidden, .transpose_b = true, .src = build.type},
            xn, parameter(1), no_operand, no_operand, layer_output);
    }

    std::int64_t slice_rows() const {
        return std::max<std::int64_t>(1, slice_bytes / (4 * config_.vocabulary));
    }

    void pass(LayerBuilder& build, Phase phase, std::int64_t sequences) const {
        bool const backward = phase == Phase::backward_input;
        std::int64_t const hidden = config_.hidden_size;
        std::int64_t const vocabulary = config_.vocabulary;
        std::int64_t const most = std::min(slice_rows(), build.rows);
        std::int64_t const width = hidden * kernels::bytes_of(build.type);
        bool const narrow = build.type != kernels::Element::float32;
        kernels::RmsNormShape const norm{build.rows, hidden, build.type, config_.norm_epsilon,
                                         false};
        build.begin(phase);
        Operand const targets = build.scratch(build.rows, std::int64_t{4});
        Operand const loss = build.scratch(build.rows, kernels::Element::float32);
        Operand const rstd = build.scratch(build.rows, kernels::Element::float32);
        Operand const xn = build.scratch(build.rows * hidden, build.type);
        Operand const logits = build.scratch(most * vocabulary, kernels::Element::float32);
        Operand const dlogits =
            backward && narrow ? build.scratch(most * vocabulary, build.type) : logits;
        Operand const dxn = backward ? build.scratch(build.rows * hidden, build.type) : no_operand;

        build.load_targets(targets);
        build.rms_norm(norm, layer_input, parameter(0), xn, rstd);
        for (std::int64_t row = 0; row < build.rows; row += most) {
            std::int64_t const rows = std::min(most, build.rows - row);
            build.matmul(
                {.m = rows, .n = vocabulary, .k = hidden, .transpose_b = true, .src = build.type},
                at(xn, row * width), parameter(1), no_operand, no_operand, logits);
            build.cross_entropy({rows, vocabulary, backward, build.type}, logits,
                                at(targets, row * 4), at(loss, row * 4),
                                backward ? dlogits : no_operand);
            if (!backward)
                continue;
            build.matmul(
                {.m = rows, .n = hidden, .k = vocabulary, .src = build.type, .dst = build.type},
                dlogits, parameter(1), no_operand, no_operand, at(dxn, row * width));
            build.matmul({.m = vocabulary,
                          .n = hidden,
                          .k = rows,
                          .transpose_a = true,
                          .accumulate = true,
                          .src = build.type},
                         dlogits, at(xn, row * width), no_operand, no_operand, gradient(1));
        }
        build.segment_sums({sequences, config_.sequence_length}, loss, {Area::sequence_losses, 0});
        if (backward) {
            build.rms_norm_weight_gradient(norm, layer_input, rstd, dxn, gradient(0));
            build.rms_norm_backward(norm, layer_input, parameter(0), rstd, dxn, no_operand,
                                    input_gradient);
        }
    }

    ModelConfig config_;
    std::vector<Parameter> parameters_;
};

} // namespace

std::unique_ptr<Layer> make_head(ModelConfig const& config) {
    return std::make_unique<Head>(config);
}

} // namespace evener::model
