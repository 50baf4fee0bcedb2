// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the parts of verify share: the programs, what was found, and each operation's facts by one
// interface. Internal to this folder.

#include "model/chunk_layout.hpp"
#include "schedule/happens_before.hpp"
#include "schedule/verify.hpp"

#include <map>
#include <set>
#include <tuple>

namespace evener::schedule {

/// A piece of a microbatch at one rank of a group.
struct Part {
    core::RankId rank;
    core::Range sequences;
};

class Context {
  public:
    Context(program::ProgramSet const& programs, model::Model const& shapes,
            std::vector<std::int64_t> const& workspace_bytes, std::int64_t optimizer_moments)
        : set{programs}, model{shapes},
          device_workspace_bytes{workspace_bytes}, moments{optimizer_moments} {}

    program::ProgramSet const& set;
    model::Model const& model;
    std::vector<std::int64_t> const& device_workspace_bytes;
    std::int64_t const moments;
    std::vector<program::Bucket> buckets; ///< made anew from the plan
    std::vector<Problem> problems;

    program::Plan const& plan() const { return set.plan; }
    bool train() const { return set.kind == program::ProgramKind::train; }
    program::Program const& program(core::RankId rank) const { return set.programs[rank.index()]; }
    program::Instruction const& at(Place place) const {
        return set.programs[place.rank.index()].instructions[place.instruction.index()];
    }
    std::string name(Place place) const { return name_of(place.rank, at(place).operation); }
    /// `received buffer 7 (from rank 1 forward, slot 0) on rank 2`.
    std::string name(core::RankId rank, core::BufferId buffer) const;

    /// The message becomes `NAME (instruction N): MESSAGE`.
    void report(Place place, std::string const& message);
    /// About something that has no instruction.
    void report(core::RankId rank, std::string const& message);
    /// About a buffer: at the first instruction that uses it, if one does.
    void report(core::RankId rank, core::BufferId buffer, std::string const& message);

    /// Fills the tables below; plan and buckets must be sound.
    void prepare();
    /// Who computes what of a chunk's microbatch; ranks without sequences left out.
    std::vector<Part> const& parts(core::ChunkId chunk, core::MicrobatchId microbatch) const {
        return parts_[chunk.index()][microbatch.index()];
    }
    core::Range sequences(core::RankId rank, core::ChunkId chunk,
                          core::MicrobatchId microbatch) const;
    /// The parts of `chunk` that share sequences with `range`, cut to it.
    std::vector<Part> overlaps(core::ChunkId chunk, core::MicrobatchId microbatch,
                               core::Range range) const;
    model::ChunkLayout const& layout(core::ChunkId chunk, std::int64_t sequences);
    std::int64_t message_bytes(core::ChunkId boundary, core::Range sequences) const;
    bool is_shared(program::Bucket const& bucket) const { return bucket.members.size() > 1; }
    bool is_member(program::Bucket const& bucket, core::RankId rank) const;
    /// Whether the rank has a fused Backward of it.
    bool is_fused(core::RankId rank, core::ChunkId chunk, core::MicrobatchId microbatch) const {
        return fused_.contains({rank, chunk, microbatch});
    }
    /// Whether the operation, a computation, adds to the gradient of the bucket.
    bool accumulates(program::Operation const& operation, program::Bucket const& bucket) const;

    /// Whether the rank keeps the bucket's compute weights in pinned memory: only those that one
    /// chunk reads.
    bool offloads_weights(core::RankId rank, program::Bucket const& bucket) const {
        return offloads_[rank.index()].parameters && bucket.chunks.size() == 1;
    }
    bool offloads_optimizer(core::RankId rank) const { return offloads_[rank.index()].optimizer; }
    /// Whether reduced gradients wait for their update in pinned memory.
    bool offloads_reduced(core::RankId rank) const {
        return offloads_optimizer(rank) && !plan().interleaved_updates;
    }
    bool offloads_activations(core::RankId rank) const {
        return train() && offloads_[rank.index()].activations;
    }
    bool recomputes(core::ChunkId chunk) const {
        return train() && plan().chunks[chunk.index()].recompute;
    }
    /// Whether Forward of the chunk runs its layers: where they are computed again and nothing takes
    /// their output it only keeps the input.
    bool computes_in_forward(core::ChunkId chunk) const {
        return !recomputes(chunk) || chunk.value + 1 < std::ssize(plan().chunks);
    }
    /// What a Forward leaves for the same microbatch's Backward or Recompute. 0 bytes = nothing.
    struct Saved {
        program::BufferKind kind = program::BufferKind::kept;
        std::int64_t bytes = 0;
    };
    Saved saved_by_forward(core::ChunkId chunk, std::int64_t sequences);
    /// Whether the rank's program copies what Forward left to pinned memory or back.
    bool is_copied(core::RankId rank, core::ChunkId chunk, core::MicrobatchId microbatch) const {
        return copied_.contains({rank, chunk, microbatch});
    }

  private:
    std::vector<std::vector<std::vector<Part>>> parts_; ///< [chunk][microbatch]
    std::map<std::pair<core::ChunkId, std::int64_t>, model::ChunkLayout> layouts_;
    std::set<std::tuple<core::RankId, core::ChunkId, core::MicrobatchId>> fused_;
    std::set<std::tuple<core::RankId, core::ChunkId, core::MicrobatchId>> copied_;
    std::vector<program::Offload> offloads_; ///< by rank
};

/// Calls `visit(place, instruction)` for every instruction of every rank.
template <class Visit>
void for_each_instruction(program::ProgramSet const& set, Visit const& visit) {
    for (program::Program const& program : set.programs)
        for (std::size_t i = 0; i < program.instructions.size(); ++i)
            visit(Place{program.rank, core::InstructionId{static_cast<std::int64_t>(i)}},
                  program.instructions[i]);
}

/// The Compute part of a Forward, Recompute or one of the Backwards, else null.
program::Compute const* compute_of(program::Operation const& operation);
/// The Message part of a Send or Receive, else null.
program::Message const* message_of(program::Operation const& operation);
/// The Copy part of a Fetch or Evict, else null.
program::Copy const* copy_of(program::Operation const& operation);
/// Buckets whose gradients the operation starts from zero.
std::vector<core::BucketId> const& clears_of(program::Operation const& operation);
/// The bucket of a collective on parameters, a measurement, an update or a copy of what belongs to
/// one; invalid for others.
core::BucketId bucket_of(program::Operation const& operation);

template <class Op>
bool is(program::Operation const& operation) {
    return std::holds_alternative<Op>(operation);
}
inline bool is_backward(program::Operation const& operation) {
    return is<program::Backward>(operation) || is<program::BackwardInput>(operation) ||
           is<program::BackwardWeight>(operation);
}

/// Which instruction wrote the content that each use finds; invalid where nothing did. For a use
/// that writes, the instruction itself. Indexed [rank][instruction][use].
using Writers = std::vector<std::vector<std::vector<core::InstructionId>>>;

/// Ids in range, queues that fit, waits that look back.
void check_structure(Context& context);
/// Every send has its receive and both say what plan and model ask.
void check_messages(Context& context, Meetings const& meetings);
/// All work of the plan, once each, by the right rank.
void check_work(Context& context);
/// The copies that the plan asks of a rank, with their bytes. What leaves and comes back at the
/// program's choice (activations, weights for a run of computations) is among them where the program
/// has it.
std::vector<program::Operation> wanted_copies(Context& context, core::RankId rank);
/// Gradients, norm, update, gather: in an order that gives the right numbers.
void check_order(Context& context, HappensBefore const& before);
/// Bytes, offsets and which buffers there are.
void check_buffers(Context& context);
/// The life of every buffer's contents, and memory that several share.
Writers check_contents(Context& context, HappensBefore const& before);
/// Each instruction uses the buffers that hold its own data.
void check_flow(Context& context, Writers const& writers);

} // namespace evener::schedule
