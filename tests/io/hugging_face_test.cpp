// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "io/hugging_face.hpp"
#include "support/message.hpp"
#include "support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <numeric>

namespace evener::io {
namespace {

LlamaConfig sizes() {
    return {.vocabulary = 32000,
            .hidden_size = 64,
            .layers = 2,
            .heads = 4,
            .kv_heads = 2,
            .head_size = 16,
            .ffn_size = 128,
            .sequence_length = 4096,
            .rope_theta = 500000,
            .norm_epsilon = 1e-5,
            .init_std = 0.01};
}

std::string text_with(std::string const& more) {
    return R"({"model_type":"llama","vocab_size":32000,"hidden_size":64,"intermediate_size":128,)"
           R"("num_hidden_layers":2,"num_attention_heads":4,"num_key_value_heads":2,)"
           R"("max_position_embeddings":4096,"rms_norm_eps":1e-5,"initializer_range":0.01)" +
           more + "}";
}

// The older form has the rope's base at the top, the newer one in rope_parameters.
TEST(LlamaConfig, IsReadInTheOlderAndTheNewerForm) {
    EXPECT_EQ(parse_llama_config(text_with(R"(,"rope_theta":500000.0)"), "c"), sizes());
    EXPECT_EQ(parse_llama_config(text_with(R"(,"rope_scaling":null,"rope_theta":500000)"), "c"),
              sizes());
    EXPECT_EQ(parse_llama_config(text_with(R"(,"rope_parameters":{"rope_type":"default",)"
                                           R"("rope_theta":500000.0})"),
                                 "c"),
              sizes());
}

TEST(LlamaConfig, ReadsBackWhatItWrites) {
    for (bool const tied : {false, true})
        for (int biases = 0; biases < 3; ++biases) {
            LlamaConfig config = sizes();
            config.tied_embeddings = tied;
            config.attention_bias = biases > 0;
            config.attention_output_bias = biases > 1;
            config.mlp_bias = biases > 1;
            EXPECT_EQ(parse_llama_config(llama_config_text(config, StoredType::float32), "c"),
                      config);
        }
    LlamaConfig config = sizes();
    config.attention_output_bias = true;
    support::expect_error_containing<core::ConfigError>(
        [&] { llama_config_text(config, StoredType::float32); }, "cannot be exported");
}

TEST(LlamaConfig, RefusesModelsThatEvenerDoesNotHave) {
    auto const refused = [](std::string const& more, std::string const& why) {
        support::expect_error_containing<core::IoError>(
            [&] { parse_llama_config(text_with(more), "c"); }, why);
    };
    refused(R"(,"hidden_act":"gelu")", "'hidden_act' is 'gelu'");
    refused(R"(,"rope_scaling":{"type":"linear","factor":2.0})", "'rope_scaling.type' is");
    refused(R"(,"rope_parameters":{"rope_type":"llama3","rope_theta":5e5})",
            "'rope_parameters.rope_type' is \"llama3\"");
    refused(R"(,"head_dim":0)", "'head_dim' is no whole number");
    refused(R"(,"tie_word_embeddings":1)", "neither true nor false");
    support::expect_error_containing<core::IoError>([&] { parse_llama_config("[]", "c"); },
                                                    "not a JSON object");
    support::expect_error_containing<core::IoError>(
        [&] { parse_llama_config(R"({"model_type":"gpt2"})", "c"); }, "'model_type' is 'gpt2'");
}

class ModelFolderTest : public testing::Test {
  protected:
    std::string folder(std::string const& name) { return (folder_ / name).string(); }
    void write(std::string const& name, std::int64_t most_file_bytes) {
        std::vector<float> values(30);
        std::iota(values.begin(), values.end(), 0.0F);
        ModelFolderWriter writer{folder(name),
                                 sizes(),
                                 StoredType::float32,
                                 {{"a", {2, 5}}, {"b", {10}}, {"c", {10}}},
                                 most_file_bytes};
        for (std::size_t begin = 0; begin < 30; begin += 3)
            writer.append({values.data() + begin, 3});
        writer.finish();
    }

    support::TemporaryFolder folder_{"model-folder"};
};

TEST_F(ModelFolderTest, IsTheSameInOneFileAndInSeveral) {
    for (std::int64_t const most : {1000, 80, 1}) {
        std::string const name = std::to_string(most);
        write(name, most);
        ModelFolder const back{folder(name)};
        EXPECT_EQ(back.config(), sizes());
        EXPECT_EQ(back.names(), (std::vector<std::string>{"a", "b", "c"}));
        std::vector<float> values(3);
        back.read("b", {4, 7}, values.data());
        EXPECT_EQ(values, (std::vector<float>{14, 15, 16}));
        EXPECT_EQ(back.find("d"), nullptr);
    }
    EXPECT_TRUE(std::filesystem::exists(folder_ / "1000/model.safetensors"));
    EXPECT_TRUE(std::filesystem::exists(folder_ / "1/model-00003-of-00003.safetensors"));
}

TEST_F(ModelFolderTest, IsNotWrittenOverAModel) {
    write("once", 1000);
    support::expect_error_containing<core::IoError>([&] { write("once", 1000); },
                                                    "holds a model or a part of one already");
}

TEST_F(ModelFolderTest, NamesWhatIsMissingOrWrong) {
    support::expect_error_containing<core::IoError>([&] { ModelFolder{folder("nowhere")}; },
                                                    "config.json");
    write("gap", 1);
    std::filesystem::remove(folder_ / "gap/model-00002-of-00003.safetensors");
    support::expect_error_containing<core::IoError>([&] { ModelFolder{folder("gap")}; },
                                                    "model-00002-of-00003.safetensors");
    write_file_atomically(folder("gap") + "/model.safetensors.index.json",
                          R"({"weight_map":{"a":"../other.safetensors"}})");
    support::expect_error_containing<core::IoError>([&] { ModelFolder{folder("gap")}; },
                                                    "must lie in the same folder");
    write("double", 1);
    std::filesystem::copy_file(folder_ / "double/model-00001-of-00003.safetensors",
                               folder_ / "double/model-00002-of-00003.safetensors",
                               std::filesystem::copy_options::overwrite_existing);
    support::expect_error_containing<core::IoError>([&] { ModelFolder{folder("double")}; },
                                                    "as another file does");
}

} // namespace
} // namespace evener::io
