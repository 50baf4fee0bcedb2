// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where buffers lie on a rank: the two regions of its memory, the homes of its parameters by bucket
// (for gathers, initialization, checkpoints), and what one instruction uses.

#include "program/program.hpp"

namespace evener::runtime {

/// Where a rank's memories begin.
struct Regions {
    std::byte* device = nullptr; ///< the arena
    std::byte* pinned = nullptr; ///< null on ranks that do not offload

    std::byte* of(program::Buffer const& buffer) const {
        return (buffer.memory == program::Memory::pinned ? pinned : device) + buffer.offset;
    }
};

/// What a rank keeps of one bucket between passes; null where the rank has no such buffer. Of what
/// is offloaded these are the homes, in pinned memory.
struct BucketMemory {
    program::Bucket const* bucket = nullptr;
    core::DType type = core::DType::float32;
    std::byte* weights = nullptr; ///< element `weights_range.begin` of the bucket
    core::Range weights_range;
    core::Range shard;       ///< elements it owns
    float* master = nullptr; ///< shard.size() elements, as the next three
    float* moment1 = nullptr;
    float* moment2 = nullptr;
    /// Copy of the reduced gradient of the last training pass; only in sessions that keep it.
    float* kept_gradient = nullptr;

    std::byte* weights_at(std::int64_t element) const {
        return weights + (element - weights_range.begin) * core::bytes_of(type);
    }
};

/// By bucket id. `kept_gradients`: kept_gradient_bytes(set, rank), or null.
std::vector<BucketMemory> map_buckets(program::ProgramSet const& set, core::RankId rank,
                                      Regions const& regions, std::byte* kept_gradients = nullptr);
std::int64_t kept_gradient_bytes(program::ProgramSet const& set, core::RankId rank);

/// Buffers of one instruction.
class UsedBuffers {
  public:
    UsedBuffers(program::Program const& program, program::Instruction const& instruction,
                Regions const& regions)
        : program_{program}, instruction_{instruction}, regions_{regions} {}

    /// In the device's memory, null where there is none; without a bucket the first of its kind.
    std::byte* find(program::BufferKind kind, core::BucketId bucket = {}) const;
    /// The one in that memory; a copy has one in each.
    std::byte* in(program::Memory memory) const;
    /// The shard's reduced gradient, or the whole one, which is it where the bucket has one member.
    float* reduced(core::BucketId bucket) const;

  private:
    program::Program const& program_;
    program::Instruction const& instruction_;
    Regions const& regions_;
};

} // namespace evener::runtime
