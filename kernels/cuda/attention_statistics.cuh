// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the backward pass needs of each query beside q and d_o, laid out so that a block of queries
// of one head is contiguous: [sequences, query_heads, padded_length].

#include "kernels/cuda/attention_sizes.cuh"
#include "kernels/operands.hpp"

#include <cstddef>

namespace evener::kernels::cuda {

struct alignas(8) QueryStatistics {
    float lse2;  ///< lse / log 2; infinity behind the end of the sequence, where all weights are 0
    float delta; ///< o . d_o; 0 behind the end
};

/// Length of a sequence rounded up to whole blocks of 64 queries, the largest that are read.
__host__ __device__ constexpr std::int64_t padded_length(std::int64_t length) {
    return (length + 63) / 64 * 64;
}

/// Where those of one head begin.
__device__ __forceinline__ std::int64_t statistics_offset(AttentionSizes const& s,
                                                          std::int64_t sequence, int head) {
    return (sequence * s.query_heads + head) * padded_length(s.length);
}

constexpr std::int64_t statistics_count(AttentionShape const& shape) {
    return shape.sequences * shape.query_heads * padded_length(shape.sequence_length);
}

/// Enqueues the pass that makes them of o, lse and d_o (AttentionBackwardOperand). The shape has at
/// least one row and one head.
void make_statistics(AttentionShape const& shape, Operands in, QueryStatistics* statistics,
                     cudaStream_t stream);

} // namespace evener::kernels::cuda
