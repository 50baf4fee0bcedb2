// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_map.hpp"

namespace evener::runtime {

std::vector<BucketMemory> map_buckets(program::ProgramSet const& set, core::RankId rank,
                                      std::byte* arena) {
    std::vector<BucketMemory> memory(set.buckets.size());
    for (program::Bucket const& bucket : set.buckets) {
        BucketMemory& entry = memory[bucket.id.index()];
        entry.bucket = &bucket;
        entry.weights_range = bucket.weights_of(rank);
        entry.shard = bucket.shard_of(rank);
        if (!entry.weights_range.empty())
            entry.type = bucket.type_of(rank);
    }
    for (program::Buffer const& buffer : set.programs[rank.index()].buffers) {
        if (!buffer.bucket.valid())
            continue;
        BucketMemory& entry = memory[buffer.bucket.index()];
        std::byte* const begin = arena + buffer.offset;
        auto* const floats = reinterpret_cast<float*>(begin);
        switch (buffer.kind) {
        case program::BufferKind::weights:
            entry.weights = begin;
            break;
        case program::BufferKind::gradients:
            entry.gradients = floats;
            break;
        case program::BufferKind::reduced:
            entry.reduced = floats;
            break;
        case program::BufferKind::shards: {
            std::int64_t const vectors = buffer.bytes / (4 * entry.shard.size());
            entry.master = floats;
            if (vectors > 1)
                entry.moment1 = floats + entry.shard.size();
            if (vectors > 2)
                entry.moment2 = floats + 2 * entry.shard.size();
            break;
        }
        default:
            break;
        }
    }
    // A bucket with one member has no reduction: its gradient is the reduced one.
    for (BucketMemory& entry : memory)
        if (entry.bucket->members.size() == 1)
            entry.reduced = entry.gradients;
    return memory;
}

} // namespace evener::runtime
