// SPDX-License-Identifier: Apache-2.0
// Copies between the device and pinned memory: which ones a rank must have, and how many bytes each
// moves.
#include "schedule/verify_context.hpp"

namespace evener::schedule {

using core::ChunkId;
using core::MicrobatchId;
using core::RankId;
using program::Bucket;
using program::BufferKind;
using program::Copy;
using program::Evict;
using program::Fetch;
using program::Operation;

namespace {

Copy of_bucket(BufferKind kind, Bucket const& bucket, std::int64_t bytes) {
    Copy copy;
    copy.kind = kind;
    copy.bucket = bucket.id;
    copy.bytes = bytes;
    return copy;
}

/// Any number of residences, each fetched once.
void add_weights(Context const& context, RankId rank, Bucket const& bucket,
                 std::vector<Operation>& wanted) {
    std::set<std::int64_t> residences;
    for (program::Instruction const& instruction : context.program(rank).instructions)
        if (auto const* fetch = std::get_if<Fetch>(&instruction.operation))
            if (fetch->kind == BufferKind::weights && fetch->bucket == bucket.id)
                residences.insert(fetch->slot);
    for (std::int64_t const residence : residences) {
        Copy copy = of_bucket(BufferKind::weights, bucket,
                              bucket.elements * core::bytes_of(bucket.type_of(rank)));
        copy.slot = residence;
        wanted.push_back(Fetch{copy});
    }
}

/// What surrounds the update of a shard.
void add_update(Context const& context, RankId rank, Bucket const& bucket,
                std::vector<Operation>& wanted) {
    std::int64_t const owned = bucket.shard_of(rank).size();
    if (context.offloads_weights(rank, bucket))
        wanted.push_back(Evict{
            of_bucket(BufferKind::updated, bucket, owned * core::bytes_of(bucket.type_of(rank)))});
    if (context.offloads_optimizer(rank)) {
        Copy const shards =
            of_bucket(BufferKind::shards, bucket, owned * 4 * (1 + context.moments));
        wanted.push_back(Fetch{shards});
        wanted.push_back(Evict{shards});
    }
    if (context.offloads_reduced(rank)) {
        // Of a bucket with one member the whole gradient is the reduced one.
        BufferKind const from =
            context.is_shared(bucket) ? BufferKind::reduced : BufferKind::gradients;
        wanted.push_back(Evict{of_bucket(from, bucket, owned * 4)});
        wanted.push_back(Fetch{of_bucket(BufferKind::reduced, bucket, owned * 4)});
    }
}

/// Out and back, or neither.
void add_activations(Context& context, RankId rank, std::vector<Operation>& wanted) {
    for (std::size_t c = 0; c < context.plan().chunks.size(); ++c)
        for (std::int64_t m = 0; m < context.plan().microbatch_count(); ++m) {
            Copy copy;
            copy.chunk = ChunkId{static_cast<std::int64_t>(c)};
            copy.microbatch = MicrobatchId{m};
            core::Range const sequences = context.sequences(rank, copy.chunk, copy.microbatch);
            if (sequences.empty() || !context.is_copied(rank, copy.chunk, copy.microbatch))
                continue;
            Context::Saved const saved = context.saved_by_forward(copy.chunk, sequences.size());
            copy.kind = saved.kind;
            copy.bytes = saved.bytes;
            if (saved.bytes > 0) {
                wanted.push_back(Evict{copy});
                wanted.push_back(Fetch{copy});
            }
        }
}

} // namespace

std::vector<Operation> wanted_copies(Context& context, RankId rank) {
    std::vector<Operation> wanted;
    for (Bucket const& bucket : context.buckets) {
        if (bucket.holds(rank) && context.offloads_weights(rank, bucket))
            add_weights(context, rank, bucket, wanted);
        if (context.train() && !bucket.shard_of(rank).empty())
            add_update(context, rank, bucket, wanted);
    }
    if (context.offloads_activations(rank))
        add_activations(context, rank, wanted);
    return wanted;
}

} // namespace evener::schedule
