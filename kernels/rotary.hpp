// SPDX-License-Identifier: Apache-2.0
#pragma once

// Rotary position embedding (Su et al. 2021) in the half-split form of Hugging Face Llama, in place
// on the query and key columns of a fused projection. A row holds query heads, key heads, value
// heads: [(query_heads + 2 * key_heads) * head_size]. Row r has position p = r mod sequence_length.
// For i < head_size / 2 (head_size even), angle = p * theta^(-2 i / head_size):
//   x[i]'               = x[i] cos - x[i + head_size/2] sin
//   x[i + head_size/2]' = x[i + head_size/2] cos + x[i] sin
// The backward pass is the rotation by -angle (`inverse`). Value columns stay as they are.

#include "kernels/types.hpp"

namespace evener::kernels {

struct RotaryShape {
    std::int64_t rows = 0;
    std::int64_t sequence_length = 0;
    std::int64_t query_heads = 0;
    std::int64_t key_heads = 0;
    std::int64_t head_size = 0;
    double theta = 10000.0;
    bool inverse = false;
    Element type = Element::float32;
};

struct RotaryOperand {
    enum : int { qkv, count };
};

} // namespace evener::kernels
