// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where a rank's parameters and their state lie in its arena, by bucket. Used by the executable, by
// initialization and by checkpoints.

#include "program/program.hpp"

namespace evener::runtime {

/// Pointers of one bucket on one rank; null where the rank has no such buffer.
struct BucketMemory {
    program::Bucket const* bucket = nullptr;
    core::DType type = core::DType::float32;
    std::byte* weights = nullptr; ///< element `weights_range.begin` of the bucket
    core::Range weights_range;
    core::Range shard;       ///< elements it owns
    float* master = nullptr; ///< shard.size() elements, as the next three
    float* moment1 = nullptr;
    float* moment2 = nullptr;
    float* reduced = nullptr;   ///< reduced gradient; train programs only
    float* gradients = nullptr; ///< the whole bucket

    std::byte* weights_at(std::int64_t element) const {
        return weights + (element - weights_range.begin) * core::bytes_of(type);
    }
};

/// By bucket id.
std::vector<BucketMemory> map_buckets(program::ProgramSet const& set, core::RankId rank,
                                      std::byte* arena);

} // namespace evener::runtime
