// SPDX-License-Identifier: Apache-2.0
#pragma once

// Buckets: parameters that the same chunks read, stored one after the other without gaps. One
// bucket per chunk for its own parameters, one per parameter that several chunks share (a tied
// weight). Every rank that computes a chunk holds the bucket's weights whole; shards (master
// weights, moments, reduced gradient) are cut into whole rows over the owners, all ranks of all
// groups that hold it, those with share zero included.

#include "program/plan.hpp"

namespace evener::program {

/// A parameter's place in its bucket; offsets in elements.
struct BucketParameter {
    core::ParameterId parameter;
    std::int64_t offset = 0;
    std::int64_t rows = 0;
    std::int64_t cols = 1;
};

/// Elements [begin, end) of the bucket that one rank owns; cuts fall between rows.
struct Shard {
    core::RankId owner;
    core::Range elements;
};

struct Bucket {
    core::BucketId id;
    std::vector<core::ChunkId> chunks; ///< that read it
    std::vector<BucketParameter> parameters;
    std::int64_t elements = 0;
    std::vector<core::RankId> holders; ///< compute with it: ranks with work; ascending
    std::vector<Shard> shards;         ///< owners with at least one element; ascending ranks
    /// Compute type of its weights by holder and owner (parallel to `members`).
    std::vector<core::RankId> members; ///< holders and owners together; ascending
    std::vector<core::DType> types;

    bool holds(core::RankId rank) const;
    core::Range shard_of(core::RankId rank) const; ///< empty when it owns nothing
    core::DType type_of(core::RankId rank) const;
    /// Elements of the weights buffer of a rank: all for a holder, its shard for another owner.
    core::Range weights_of(core::RankId rank) const;
};

/// Canonical: chunks' own buckets in model order, then shared ones by parameter.
std::vector<Bucket> make_buckets(Plan const& plan, model::Model const& model);

/// Rows [begin, end) of one parameter inside a range of bucket elements that is cut between rows.
struct Slice {
    core::ParameterId parameter;
    core::Range rows;
    std::int64_t cols = 1;
    std::int64_t offset = 0; ///< of its first element in the bucket

    std::int64_t elements() const { return rows.size() * cols; }
};

std::vector<Slice> slices_of(Bucket const& bucket, core::Range elements);

} // namespace evener::program
