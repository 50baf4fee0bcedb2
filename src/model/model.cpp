// SPDX-License-Identifier: Apache-2.0
#include "model/model.hpp"

#include <fmt/format.h>

namespace evener::model {

Model::Model(ModelConfig const& config) : config_{config} {
    layers_.push_back(make_embedding(config));
    for (std::int64_t i = 0; i < config.decoder_layers; ++i) {
        layers_.push_back(make_attention(config, i));
        layers_.push_back(make_feed_forward(config, i));
    }
    layers_.push_back(make_head(config));

    std::map<std::string, std::int64_t> by_name; // a tied weight comes twice
    for (std::size_t l = 0; l < layers_.size(); ++l) {
        auto& ids = layer_parameters_.emplace_back();
        for (Parameter const& parameter : layers_[l]->parameters()) {
            auto const [known, added] =
                by_name.try_emplace(parameter.name, std::ssize(parameters_));
            core::ParameterId const id{known->second};
            if (added) {
                parameters_.push_back(parameter);
                parameter_layers_.emplace_back();
            }
            ids.push_back(id);
            parameter_layers_[id.index()].push_back(core::LayerId{static_cast<std::int64_t>(l)});
        }
    }
}

std::int64_t Model::parameter_elements() const {
    std::int64_t elements = 0;
    for (Parameter const& parameter : parameters_)
        elements += parameter.elements();
    return elements;
}

double Model::training_flops() const {
    double flops = 0;
    for (auto const& layer : layers_)
        flops += 3 * layer->forward_flops();
    return flops;
}

std::map<std::string, std::string> Model::description() const {
    auto const yes_no = [](bool value) { return std::string{value ? "true" : "false"}; };
    return {
        {"vocabulary", fmt::to_string(config_.vocabulary)},
        {"hidden_size", fmt::to_string(config_.hidden_size)},
        {"layers", fmt::to_string(config_.decoder_layers)},
        {"heads", fmt::to_string(config_.heads)},
        {"kv_heads", fmt::to_string(config_.kv_heads)},
        {"head_size", fmt::to_string(config_.head_size)},
        {"ffn_size", fmt::to_string(config_.ffn_size)},
        {"rope_theta", fmt::format("{:.9g}", config_.rope_theta)},
        {"norm_epsilon", fmt::format("{:.9g}", config_.norm_epsilon)},
        {"tied_embeddings", yes_no(config_.tied_embeddings)},
        {"attention_bias", yes_no(config_.attention_bias)},
        {"attention_output_bias", yes_no(config_.attention_output_bias)},
        {"mlp_bias", yes_no(config_.mlp_bias)},
    };
}

} // namespace evener::model
