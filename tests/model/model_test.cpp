// SPDX-License-Identifier: Apache-2.0
#include "model/chunk_layout.hpp"
#include "model/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace evener::model {
namespace {

using core::LayerId;
using core::ParameterId;

ModelConfig small() {
    ModelConfig config;
    config.vocabulary = 11;
    config.hidden_size = 6;
    config.decoder_layers = 2;
    config.heads = 4;
    config.kv_heads = 2;
    config.head_size = 2;
    config.ffn_size = 5;
    config.sequence_length = 3;
    return config;
}

std::set<std::string> names(Model const& model) {
    std::set<std::string> result;
    for (Parameter const& parameter : model.parameters())
        result.insert(parameter.name);
    return result;
}

TEST(Model, ListsEmbeddingThenAttentionAndFeedForwardThenHead) {
    Model const model{small()};
    std::vector<std::string_view> kinds;
    for (std::int64_t l = 0; l < model.layer_count(); ++l)
        kinds.push_back(model.layer(LayerId{l}).kind());
    EXPECT_EQ(kinds, (std::vector<std::string_view>{"embedding", "attention", "feed_forward",
                                                    "attention", "feed_forward", "head"}));
}

TEST(Model, NamesParametersAsHuggingFaceLlamaDoes) {
    ModelConfig config = small();
    config.decoder_layers = 1;
    EXPECT_EQ(
        names(Model{config}),
        (std::set<std::string>{
            "model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
            "model.layers.0.self_attn.q_proj.weight", "model.layers.0.self_attn.k_proj.weight",
            "model.layers.0.self_attn.v_proj.weight", "model.layers.0.self_attn.o_proj.weight",
            "model.layers.0.post_attention_layernorm.weight", "model.layers.0.mlp.gate_proj.weight",
            "model.layers.0.mlp.up_proj.weight", "model.layers.0.mlp.down_proj.weight",
            "model.norm.weight", "lm_head.weight"}));
}

TEST(Model, GivesATiedWeightOneParameterOfTwoLayers) {
    ModelConfig config = small();
    config.tied_embeddings = true;
    Model const model{config};
    EXPECT_FALSE(names(model).contains("lm_head.weight"));
    EXPECT_EQ(model.layers_of(ParameterId{0}),
              (std::vector{LayerId{0}, LayerId{model.layer_count() - 1}}));
    EXPECT_EQ(model.parameters_of(LayerId{model.layer_count() - 1}).back(), ParameterId{0});
}

// Embedding and head 2 v d; per layer q and o 2 d h s, k and v 2 d k s, three products d f, two
// norms; final norm d. Llama-2-7B has 6,738,415,616 parameters.
TEST(Model, CountsTheParametersOfLlama7B) {
    ModelConfig config;
    config.vocabulary = 32000;
    config.hidden_size = 4096;
    config.decoder_layers = 32;
    config.heads = config.kv_heads = 32;
    config.head_size = 128;
    config.ffn_size = 11008;
    config.sequence_length = 8;
    EXPECT_EQ(Model{config}.parameter_elements(), 6738415616);
}

TEST(Model, DecaysNeitherNormsNorBiases) {
    ModelConfig config = small();
    config.attention_bias = config.attention_output_bias = config.mlp_bias = true;
    Model const model{config};
    for (Parameter const& parameter : model.parameters()) {
        bool const norm = parameter.name.find("norm") != std::string::npos;
        bool const bias = parameter.name.find("bias") != std::string::npos;
        EXPECT_EQ(parameter.decayed, !norm && !bias) << parameter.name;
        EXPECT_EQ(parameter.vector, norm || bias) << parameter.name;
    }
}

// Six FLOPs per parameter of a product and token, plus half of two T x T products per head, three
// times (forward, input gradient, weight gradient).
TEST(Model, CountsTrainingFlopsOfASequence) {
    ModelConfig const config = small();
    double const length = 3;
    double const products = 6.0 * 11                          // head
                            + 2 * (8 * 6 + 2 * 4 * 6 + 6 * 8) // q, k and v, o of two layers
                            + 2 * 3 * 6 * 5;                  // gate, up, down
    double const attention = 2 * 3 * 2 * length * 8; // 2 layers, 3 passes, 2 T (heads size)
    EXPECT_DOUBLE_EQ(Model{config}.training_flops(), length * (6 * products + attention));
}

class Layout : public ::testing::TestWithParam<core::DType> {};

TEST_P(Layout, KeepsEveryTensorInsideItsArea) {
    Model const model{small()};
    for (std::int64_t begin = 0; begin < model.layer_count(); ++begin)
        for (std::int64_t end = begin + 1; end <= model.layer_count(); ++end) {
            ChunkLayout const layout = chunk_layout(model, {begin, end}, 2, GetParam());
            EXPECT_EQ(layout.has_input, begin > 0);
            EXPECT_EQ(layout.has_output, end < model.layer_count());
            for (std::size_t j = 0; j < layout.operations.size(); ++j) {
                LayerOperations const& layer = layout.operations[j];
                EXPECT_LE(layout.kept[j] + layer.kept_bytes, layout.kept_bytes);
                for (int p = 0; p < phase_count; ++p)
                    for (Operation const& operation : layer.phases[p])
                        for (Operand const& operand : operation.operands) {
                            if (operand.area == Area::kept) {
                                EXPECT_LT(operand.offset, layer.kept_bytes);
                            }
                            if (operand.area == Area::kept_for_weights) {
                                EXPECT_LT(operand.offset, layer.kept_for_weights_bytes);
                            }
                            if (operand.area == Area::scratch) {
                                EXPECT_LT(operand.offset, layer.scratch_bytes[p]);
                            }
                        }
            }
            EXPECT_EQ(layout.kept_bytes % 64, 0);
        }
}

// A Forward that is recomputed needs room for two layers in turn; without an output it computes
// nothing.
TEST_P(Layout, DropsWhatIsRecomputed) {
    Model const model{small()};
    std::int64_t const count = model.layer_count();
    for (std::int64_t begin = 0; begin < count; ++begin)
        for (std::int64_t end = begin + 1; end <= count; ++end) {
            ChunkLayout const layout = chunk_layout(model, {begin, end}, 2, GetParam());
            Workspace const& dropping = layout.of(ChunkPass::forward_dropping);
            if (!layout.has_output) {
                EXPECT_EQ(dropping.bytes, 0);
                continue;
            }
            std::int64_t area = 0;
            for (LayerOperations const& layer : layout.operations)
                area = std::max(area, layer.kept_bytes);
            EXPECT_EQ(dropping.area[0], 0);
            EXPECT_EQ(dropping.area[1], area);
            EXPECT_EQ(dropping.boundary, 2 * area);
            Workspace const& keeping = layout.of(ChunkPass::forward);
            EXPECT_EQ(dropping.bytes - 2 * area, keeping.bytes);
        }
}

INSTANTIATE_TEST_SUITE_P(Types, Layout,
                         ::testing::Values(core::DType::float32, core::DType::bfloat16),
                         [](auto const& info) { return std::string{core::name_of(info.param)}; });

TEST(Head, NeverHoldsAllLogitsOfAMicrobatch) {
    ModelConfig config = small();
    config.vocabulary = 8192;
    config.sequence_length = 2048;
    auto const layer = make_head(config);
    std::int64_t const all = 2048LL * 8 * config.vocabulary * 4;
    EXPECT_LT(layer->operations(8, core::DType::float32).scratch_of(Phase::backward_input),
              all / 4);
}

TEST(Attention, NeverHoldsASequenceTimesSequenceMatrix) {
    ModelConfig config = small();
    config.sequence_length = 4096;
    auto const layer = make_attention(config, 0);
    LayerOperations const operations = layer->operations(1, core::DType::float32);
    std::int64_t const square = 4096LL * 4096 * 4;
    EXPECT_LT(operations.kept_bytes, square);
    EXPECT_LT(operations.scratch_of(Phase::backward_input), square);
}

} // namespace
} // namespace evener::model
