// SPDX-License-Identifier: Apache-2.0
#pragma once

// Causal grouped-query attention on a fused projection, row layout as in rotary.hpp. Rows come in
// sequences of `sequence_length`; query head h reads key/value head h / (query_heads / key_heads).
//   s[i, j] = q[i] . k[j] / sqrt(head_size) for j <= i,   p = softmax of s over j
//   o[i] = sum over j of p[i, j] v[j]
//   lse[i, h] = log sum over j of exp(s[i, j])            (float32, [rows, query_heads])
// No sequence_length x sequence_length matrix is ever stored (online softmax over blocks, Dao 2022).
// Backward, with delta[i] = o[i] . do[i]:
//   ds[i, j] = p[i, j] (do[i] . v[j] - delta[i]) / sqrt(head_size)
//   dq[i] = sum_j ds[i, j] k[j],  dk[j] = sum_i ds[i, j] q[i],  dv[j] = sum_i p[i, j] do[i]
// written to dqkv in the layout of qkv (every column overwritten).

#include "kernels/types.hpp"

namespace evener::kernels {

struct AttentionShape {
    std::int64_t sequences = 0;
    std::int64_t sequence_length = 0;
    std::int64_t query_heads = 0;
    std::int64_t key_heads = 0; ///< divides query_heads
    std::int64_t head_size = 0;
    Element type = Element::float32;
};

struct AttentionOperand { // forward; o: [rows, query_heads * head_size]
    enum : int { qkv, o, lse, count };
};
struct AttentionBackwardOperand {
    enum : int { qkv, o, lse, d_o, dqkv, count };
};

} // namespace evener::kernels
