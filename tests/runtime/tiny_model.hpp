// SPDX-License-Identifier: Apache-2.0
#pragma once

// The model and the tokens of tests of sessions: small, with a tied weight, no data files.

#include "model/config.hpp"
#include "runtime/tokens.hpp"

namespace evener::runtime {

inline model::ModelConfig tiny_model() {
    model::ModelConfig config;
    config.vocabulary = 17;
    config.hidden_size = 12;
    config.heads = config.kv_heads = 2;
    config.head_size = 6;
    config.ffn_size = 10;
    config.sequence_length = 5;
    config.tied_embeddings = true;
    return config;
}

/// Each token is one more than the one before; where they begin tells step and sequence.
class CountingTokens final : public TokenSource {
  public:
    void read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const override {
        for (std::size_t i = 0; i < inputs.size(); ++i) {
            inputs[i] = static_cast<std::int32_t>(
                (step * 5 + sequence * 3 + static_cast<std::int64_t>(i)) % 17);
            targets[i] = (inputs[i] + 1) % 17;
        }
    }
    std::int64_t valid_targets(std::int64_t, std::int64_t) const override { return 5; }
};

} // namespace evener::runtime
