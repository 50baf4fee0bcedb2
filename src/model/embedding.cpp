// SPDX-License-Identifier: Apache-2.0
// The token embedding: x[r, :] = table[token[r], :]. Reads its tokens again in BackwardWeight, so
// it keeps nothing. It has no input gradient: BackwardInput does nothing.
#include "model/builder.hpp"

namespace evener::model {

namespace {

class Embedding final : public Layer {
  public:
    explicit Embedding(ModelConfig const& config) : config_{config} {
        parameters_.push_back({.name = "model.embed_tokens.weight",
                               .rows = config.vocabulary,
                               .cols = config.hidden_size,
                               .decayed = true,
                               .init_std = config.init_std});
    }

    std::string_view kind() const override { return "embedding"; }
    std::vector<Parameter> const& parameters() const override { return parameters_; }
    bool has_input() const override { return false; }
    double forward_flops() const override { return 0; }

    LayerOperations operations(std::int64_t sequences, core::DType compute) const override {
        LayerBuilder build{config_, sequences, compute};
        kernels::EmbeddingShape const shape{build.rows, config_.hidden_size, config_.vocabulary,
                                            build.type};
        for (Phase const phase : {Phase::forward, Phase::evaluate}) {
            build.begin(phase);
            Operand const tokens = build.scratch(build.rows, std::int64_t{4});
            build.load_inputs(tokens);
            build.embedding(shape, tokens, parameter(0), layer_output);
        }
        build.keep_for_weights(config_.hidden_size, build.type); // the gradient of the output
        build.begin(Phase::backward_weight);
        Operand const tokens = build.scratch(build.rows, std::int64_t{4});
        build.load_inputs(tokens);
        build.embedding_gradient(shape, tokens, output_gradient, gradient(0));
        return build.take();
    }

  private:
    ModelConfig config_;
    std::vector<Parameter> parameters_;
};

} // namespace

std::unique_ptr<Layer> make_embedding(ModelConfig const& config) {
    return std::make_unique<Embedding>(config);
}

} // namespace evener::model
