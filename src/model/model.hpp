// SPDX-License-Identifier: Apache-2.0
#pragma once

// The model as a list of layers: embedding, then attention and feed-forward for each decoder layer,
// then head. A stage boundary may fall between any two. Parameters are numbered once, in the order
// of the layers; a tied weight is one parameter of two layers.

#include "model/layer.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace evener::model {

class Model {
  public:
    explicit Model(ModelConfig const& config);

    ModelConfig const& config() const { return config_; }
    std::int64_t layer_count() const { return std::ssize(layers_); }
    Layer const& layer(core::LayerId id) const { return *layers_[id.index()]; }

    std::vector<Parameter> const& parameters() const { return parameters_; }
    Parameter const& parameter(core::ParameterId id) const { return parameters_[id.index()]; }
    /// Ids of a layer's parameters, in the order of Layer::parameters.
    std::vector<core::ParameterId> const& parameters_of(core::LayerId id) const {
        return layer_parameters_[id.index()];
    }
    /// Layers that read a parameter, in model order (two for a tied weight).
    std::vector<core::LayerId> const& layers_of(core::ParameterId id) const {
        return parameter_layers_[id.index()];
    }
    std::int64_t parameter_elements() const;

    /// Sequences of `sequence_length` tokens: FLOPs of one training step per sequence, counted as
    /// three forward passes (6 per parameter of a product and token, plus causal attention).
    double training_flops() const;

    /// Sizes by name, in words a person reads: what a checkpoint must agree on.
    std::map<std::string, std::string> description() const;

  private:
    ModelConfig config_;
    std::vector<std::unique_ptr<Layer>> layers_;
    std::vector<Parameter> parameters_;
    std::vector<std::vector<core::ParameterId>> layer_parameters_;
    std::vector<std::vector<core::LayerId>> parameter_layers_;
};

} // namespace evener::model
