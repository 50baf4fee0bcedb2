// SPDX-License-Identifier: Apache-2.0
#pragma once

// A plan: who does what. Groups of ranks hold chunks (runs of layers); each microbatch of a group
// is cut by shares or dealt whole. Data and pure functions of it; made by the job or a planner.
//
// Example: 5 ranks, batch 12, microbatch 4. Group 0 = ranks 0-2 with shares 2:1:0 and layers [0,
// 5), group 1 = ranks 3, 4 with dealt microbatches and layers [5, 8). Microbatch 1 is the sequences
// [4, 8) of the batch: rank 0 computes [4, 7), rank 1 [7, 8), rank 2 nothing (it only holds
// shards); in group 1 it belongs to rank 4 alone.

#include "core/ids.hpp"
#include "core/types.hpp"
#include "model/model.hpp"

#include <string>
#include <vector>

namespace evener::program {

enum class Dispatch : std::uint8_t {
    shares, ///< every rank takes its part of each microbatch
    dealt,  ///< whole microbatches go to ranks in turn
};

/// What leaves the device's memory while it is not needed. Ranks whose device computes in host memory
/// take no notice of it.
struct Offload {
    /// Compute weights, fetched before a run of computations of their chunk. Those that several
    /// chunks share stay.
    bool parameters = false;
    bool optimizer = false;   ///< master weights, moments, reduced gradients
    bool activations = false; ///< kept from Forward to Backward, or the inputs to recompute from

    bool any() const { return parameters || optimizer || activations; }
    friend bool operator==(Offload const&, Offload const&) = default;
};

struct Group {
    std::vector<core::RankId> ranks;
    std::vector<double> shares;        ///< weight of each rank's part, >= 0, one positive at least
    std::vector<double> shard_weights; ///< weight of each rank's optimizer shard, likewise
    Dispatch dispatch = Dispatch::shares;
    /// Member to whom each microbatch is dealt; empty = by weights. Only with Dispatch::dealt.
    std::vector<std::int32_t> deal = {};
    core::DType compute = core::DType::float32;
    Offload offload = {};
    /// By member: whether its device has a memory of its own, which is where offload and pinned
    /// memory mean something. Empty = none has.
    std::vector<bool> own_memory = {};

    friend bool operator==(Group const&, Group const&) = default;
};

struct Chunk {
    core::GroupId group;
    core::Range layers;     ///< of the model's list of layers; not empty
    bool recompute = false; ///< Forward keeps only the chunk's input, Recompute computes it again

    friend bool operator==(Chunk const&, Chunk const&) = default;
};

struct Plan {
    std::vector<Group> groups;
    std::vector<Chunk> chunks;        ///< in model order, covering every layer once
    std::int64_t batch_size = 1;      ///< sequences of one step
    std::int64_t microbatch_size = 1; ///< sequences; the last microbatch may be smaller
    std::string schedule = "1f1b";
    bool split_backward = false;      ///< BackwardInput and BackwardWeight apart
    std::int64_t receive_buffers = 0; ///< per link direction; 0 = lowering decides
    /// Updates follow the reduction of their gradient and wait for no norm: gradients are freed
    /// early. Only where nothing is clipped and nothing skipped for a gradient that is not finite.
    bool interleaved_updates = false;
    std::vector<core::DType> boundary_types; ///< wire type after chunk c, for c < chunks - 1

    std::int64_t rank_count() const;
    std::int64_t microbatch_count() const { return core::div_up(batch_size, microbatch_size); }
    /// Sequences of a microbatch, counted within the batch.
    core::Range microbatch_range(core::MicrobatchId id) const;
    Group const& group_of(core::ChunkId id) const {
        return groups[chunks[id.index()].group.index()];
    }

    friend bool operator==(Plan const&, Plan const&) = default;
};

/// Sequences (within the batch) that member `member` of the group computes of a microbatch: its
/// part by largest remainder, parts in the order of the members; or all or nothing where dealt.
core::Range sequences_of(Plan const& plan, Group const& group, std::size_t member,
                         core::MicrobatchId microbatch);

/// Cuts `total` into whole parts proportional to `weights` by largest remainder (ties: lower index
/// first); weight 0 gets 0.
std::vector<std::int64_t> largest_remainder(std::int64_t total, std::vector<double> const& weights);

/// Member to whom each microbatch goes when they are dealt by weights: the one furthest behind its
/// weight (ties: lower index).
std::vector<std::int32_t> deal_by_weights(std::vector<double> const& weights, std::int64_t count);

/// Member to whom each of `count` microbatches is dealt: as the group says, or by weights.
std::vector<std::int32_t> deal_of(Group const& group, std::int64_t count);

/// Everything that makes the plan impossible for this model, in words for the user; empty = fine.
std::vector<std::string> plan_problems(Plan const& plan, model::Model const& model);

/// Index of the rank in the group, or -1.
std::int64_t member_of(Group const& group, core::RankId rank);

/// What a rank offloads: what its group does, nothing where its device has no memory of its own.
Offload offload_of(Plan const& plan, core::RankId rank);

/// The narrower of the two compute types at each boundary.
std::vector<core::DType> default_boundary_types(Plan const& plan);

} // namespace evener::program
