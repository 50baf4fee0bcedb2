// SPDX-License-Identifier: Apache-2.0
// config.json of a model folder, read with all that it might say and Evener does not do.
#include "core/error.hpp"
#include "io/hugging_face.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace evener::io {

namespace {

using nlohmann::json;

class ConfigReader {
  public:
    ConfigReader(std::string const& text, std::string const& path)
        : path_{path}, config_(json::parse(text, nullptr, false)) {
        if (!config_.is_object())
            fail("it is not a JSON object");
    }

    LlamaConfig read() const {
        std::string const type = word("model_type", "");
        if (type != "llama" && type != "qwen2")
            refuse("model_type", quoted(type), "'llama' and 'qwen2'");
        if (std::string const act = word("hidden_act", "silu"); act != "silu")
            refuse("hidden_act", quoted(act), "'silu'");
        if (flag("use_sliding_window", false))
            refuse("use_sliding_window", "true", "full attention");
        LlamaConfig config;
        config.vocabulary = whole("vocab_size");
        config.hidden_size = whole("hidden_size");
        config.ffn_size = whole("intermediate_size");
        config.layers = whole("num_hidden_layers");
        config.heads = whole("num_attention_heads");
        config.kv_heads =
            given("num_key_value_heads") ? whole("num_key_value_heads") : config.heads;
        config.head_size =
            given("head_dim") ? whole("head_dim") : config.hidden_size / config.heads;
        config.sequence_length =
            given("max_position_embeddings") ? whole("max_position_embeddings") : 2048;
        config.rope_theta = rope_theta();
        config.norm_epsilon = positive(config_, "rms_norm_eps", config.norm_epsilon);
        config.init_std = positive(config_, "initializer_range", config.init_std);
        config.tied_embeddings = flag("tie_word_embeddings", false);
        config.attention_bias = type == "qwen2" || flag("attention_bias", false);
        config.attention_output_bias = type == "llama" && config.attention_bias;
        config.mlp_bias = flag("mlp_bias", false);
        return config;
    }

  private:
    [[noreturn]] void fail(std::string const& what) const {
        throw core::IoError{path_, fmt::format("cannot be used ({}); check that the folder holds a "
                                               "Llama or Qwen2 model",
                                               what)};
    }
    [[noreturn]] void refuse(std::string const& key, std::string const& value,
                             std::string const& supported) const {
        throw core::IoError{path_, fmt::format("'{}' is {} (evener has {}); this model cannot be "
                                               "imported",
                                               key, value, supported)};
    }
    static std::string quoted(std::string const& text) { return fmt::format("'{}'", text); }

    bool given(char const* key) const { return config_.contains(key) && !config_[key].is_null(); }

    std::string word(char const* key, char const* otherwise) const {
        if (!given(key))
            return otherwise;
        if (!config_[key].is_string())
            fail(fmt::format("'{}' is no text", key));
        return config_[key].get<std::string>();
    }

    bool flag(char const* key, bool otherwise) const {
        if (!given(key))
            return otherwise;
        if (!config_[key].is_boolean())
            fail(fmt::format("'{}' is neither true nor false", key));
        return config_[key].get<bool>();
    }

    std::int64_t whole(char const* key) const {
        if (!given(key))
            fail(fmt::format("'{}' is missing", key));
        json const& value = config_[key];
        if (!value.is_number_unsigned() || value.get<std::uint64_t>() == 0 ||
            value.get<std::uint64_t>() > 1'000'000'000)
            fail(fmt::format("'{}' is no whole number from 1 to 1e9", key));
        return value.get<std::int64_t>();
    }

    double positive(json const& object, char const* key, double otherwise) const {
        if (!object.contains(key) || object[key].is_null())
            return otherwise;
        if (!object[key].is_number() || !(object[key].get<double>() > 0))
            fail(fmt::format("'{}' is no positive number", key));
        return object[key].get<double>();
    }

    /// Of either form; scaled positions are refused.
    double rope_theta() const {
        for (char const* const key : {"rope_scaling", "rope_parameters"}) {
            if (!given(key))
                continue;
            json const& rope = config_[key];
            if (!rope.is_object())
                fail(fmt::format("'{}' is no object", key));
            for (char const* const kind : {"rope_type", "type"})
                if (rope.contains(kind) && rope[kind] != "default")
                    refuse(fmt::format("{}.{}", key, kind), rope[kind].dump(), "'default'");
        }
        double const older = positive(config_, "rope_theta", 10000);
        return given("rope_parameters") ? positive(config_["rope_parameters"], "rope_theta", older)
                                        : older;
    }

    std::string const& path_;
    json config_;
};

} // namespace

LlamaConfig parse_llama_config(std::string const& text, std::string const& path) {
    return ConfigReader{text, path}.read();
}

std::string llama_config_text(LlamaConfig const& config, StoredType type) {
    bool const llama = config.attention_output_bias == config.attention_bias;
    bool const qwen2 = config.attention_bias && !config.attention_output_bias && !config.mlp_bias;
    if (!llama && !qwen2)
        throw core::ConfigError{
            "this model has biases that neither Llama nor Qwen2 has (Llama: attention on all four "
            "projections or none; Qwen2: on query, key and value alone); it cannot be exported"};
    char const* const type_name = type == StoredType::float32 ? "float32" : "bfloat16";
    nlohmann::ordered_json json;
    json["architectures"] = {llama ? "LlamaForCausalLM" : "Qwen2ForCausalLM"};
    json["model_type"] = llama ? "llama" : "qwen2";
    json["vocab_size"] = config.vocabulary;
    json["hidden_size"] = config.hidden_size;
    json["intermediate_size"] = config.ffn_size;
    json["num_hidden_layers"] = config.layers;
    json["num_attention_heads"] = config.heads;
    json["num_key_value_heads"] = config.kv_heads;
    json["head_dim"] = config.head_size;
    json["max_position_embeddings"] = config.sequence_length;
    json["hidden_act"] = "silu";
    json["rms_norm_eps"] = config.norm_epsilon;
    json["initializer_range"] = config.init_std;
    json["tie_word_embeddings"] = config.tied_embeddings;
    if (llama) {
        json["attention_bias"] = config.attention_bias;
        json["mlp_bias"] = config.mlp_bias;
    }
    json["rope_theta"] = config.rope_theta;
    json["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", config.rope_theta}};
    json["torch_dtype"] = type_name;
    json["dtype"] = type_name;
    return json.dump(2) + "\n";
}

} // namespace evener::io
