// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory_map.hpp"

namespace evener::runtime {

using program::Buffer;
using program::BufferKind;
using program::Memory;

std::vector<BucketMemory> map_buckets(program::ProgramSet const& set, core::RankId rank,
                                      Regions const& regions, std::byte* kept_gradients) {
    std::vector<BucketMemory> memory(set.buckets.size());
    auto* kept = reinterpret_cast<float*>(kept_gradients);
    for (program::Bucket const& bucket : set.buckets) {
        BucketMemory& entry = memory[bucket.id.index()];
        entry.bucket = &bucket;
        entry.weights_range = bucket.weights_of(rank);
        entry.shard = bucket.shard_of(rank);
        if (!entry.weights_range.empty())
            entry.type = bucket.type_of(rank);
        if (kept == nullptr || entry.shard.empty())
            continue;
        entry.kept_gradient = kept;
        kept += entry.shard.size();
    }
    for (Buffer const& buffer : set.programs[rank.index()].buffers) {
        if (!buffer.persistent)
            continue;
        BucketMemory& entry = memory[buffer.bucket.index()];
        std::byte* const begin = regions.of(buffer);
        if (buffer.kind == BufferKind::weights)
            entry.weights = begin;
        if (buffer.kind != BufferKind::shards)
            continue;
        auto* const floats = reinterpret_cast<float*>(begin);
        std::int64_t const vectors = buffer.bytes / (4 * entry.shard.size());
        entry.master = floats;
        if (vectors > 1)
            entry.moment1 = floats + entry.shard.size();
        if (vectors > 2)
            entry.moment2 = floats + 2 * entry.shard.size();
    }
    return memory;
}

std::int64_t kept_gradient_bytes(program::ProgramSet const& set, core::RankId rank) {
    std::int64_t bytes = 0;
    for (program::Bucket const& bucket : set.buckets)
        bytes += 4 * bucket.shard_of(rank).size();
    return bytes;
}

std::byte* UsedBuffers::find(BufferKind kind, core::BucketId bucket) const {
    for (program::Use const& use : instruction_.uses) {
        Buffer const& buffer = program_.buffers[use.buffer.index()];
        if (buffer.kind == kind && buffer.memory == Memory::device &&
            (!bucket.valid() || buffer.bucket == bucket))
            return regions_.of(buffer);
    }
    return nullptr;
}

std::byte* UsedBuffers::in(Memory memory) const {
    for (program::Use const& use : instruction_.uses) {
        Buffer const& buffer = program_.buffers[use.buffer.index()];
        if (buffer.memory == memory)
            return regions_.of(buffer);
    }
    EVENER_EXPECT(!"a copy without a buffer in each memory");
    return nullptr;
}

float* UsedBuffers::reduced(core::BucketId bucket) const {
    std::byte* found = find(BufferKind::reduced, bucket);
    if (found == nullptr)
        found = find(BufferKind::gradients, bucket);
    return reinterpret_cast<float*>(found);
}

} // namespace evener::runtime
