// SPDX-License-Identifier: Apache-2.0
#pragma once

// The sizes that define a Llama-style decoder. Validated by the job; this folder relies on it.

#include <cstdint>

namespace evener::model {

struct ModelConfig {
    std::int64_t vocabulary = 256;
    std::int64_t hidden_size = 64;
    std::int64_t decoder_layers = 2;
    std::int64_t heads = 4;
    std::int64_t kv_heads = 4; ///< divides heads
    std::int64_t head_size = 16;
    std::int64_t ffn_size = 128;
    std::int64_t sequence_length = 64;
    double rope_theta = 10000.0;
    float norm_epsilon = 1e-5f;
    bool tied_embeddings = false;
    bool attention_bias = false;        ///< on the query, key and value projections
    bool attention_output_bias = false; ///< on the output projection
    bool mlp_bias = false;              ///< on gate, up and down
    float init_std = 0.02f;

    friend bool operator==(ModelConfig const&, ModelConfig const&) = default;
};

} // namespace evener::model
