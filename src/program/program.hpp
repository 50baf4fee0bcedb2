// SPDX-License-Identifier: Apache-2.0
#pragma once

// A program: for one rank, the instructions of one pass (a training step, a validation pass). Each
// names its queue, the instructions of the same rank it waits for beyond its queue's order, and its
// buffers. verify, simulate, execute and draw all read these lists and nothing else.
//
// Rules that all readers share
// - A queue starts its instructions in order. On every queue but `receive` an instruction starts
//   when the one before has ended; on a receive queue when the one before has started (several
//   receives of one link may be posted), and they end in order.
// - An instruction starts when all instructions in `after` have ended.
// - A Send ends when the matching Receive has started (synchronous); a Receive ends after the
//   matching Send has started. A collective ends when every participant has started its own.
// - Fetch and Evict copy between the device and pinned memory of the host, where what the device need
//   not hold all the time has its home. They run on copy queues, beside the computations.
// - A buffer's content begins with a `write`, is used by `read` and `update` and ends with the use
//   that is marked `last`. Persistent buffers keep their content between programs.

#include "core/ids.hpp"
#include "core/types.hpp"
#include "program/buckets.hpp"
#include "program/plan.hpp"

#include <string>
#include <variant>
#include <vector>

namespace evener::program {

enum class Direction : std::uint8_t { forward, backward };

enum class QueueKind : std::uint8_t { compute, send, receive, collective, copy_in, copy_out };

struct Queue {
    QueueKind kind = QueueKind::compute;
    core::RankId peer; ///< of send and receive
    Direction direction = Direction::forward;

    friend bool operator==(Queue const&, Queue const&) = default;
};

/// Rows of the memory table.
enum class BufferKind : std::uint8_t {
    weights,
    gradients,        ///< whole, float32
    shards,           ///< master weights and moments
    reduced,          ///< reduced gradients of the shard
    kept,             ///< from Forward to Backward
    kept_for_weights, ///< from BackwardInput to BackwardWeight
    received,         ///< received ahead
    sending,          ///< not yet sent
    handover,         ///< between two chunks of the same rank
    workspace,
    inputs,  ///< of a chunk, from Forward to Recompute
    updated, ///< new compute weights of the shard, on their way to pinned memory
};
inline constexpr int buffer_kind_count = 12;

/// Where a buffer lies: each memory of a rank is one region, with offsets of its own.
enum class Memory : std::uint8_t {
    device, ///< the arena; of a rank without a device memory of its own it is host memory
    pinned, ///< of the host, on ranks that offload
};

/// What a buffer holds, as far as it is fixed by the plan; unused members stay invalid.
struct Buffer {
    BufferKind kind = BufferKind::workspace;
    Memory memory = Memory::device;
    bool persistent = false; ///< keeps its content and its offset in all programs of a rank
    std::int64_t bytes = 0;
    std::int64_t offset = 0;                  ///< in its memory's region, a multiple of 64
    core::ChunkId chunk{};                    ///< kept, inputs, handover
    core::MicrobatchId microbatch{};          ///< kept, inputs, handover
    core::BucketId bucket{};                  ///< weights, gradients, shards, reduced, updated
    core::RankId peer{};                      ///< received, sending
    Direction direction = Direction::forward; ///< received, sending, handover
    std::int64_t slot = 0; ///< received, sending; of what is fetched several times, which time

    friend bool operator==(Buffer const&, Buffer const&) = default;
};

enum class Access : std::uint8_t { write, read, update };

struct Use {
    core::BufferId buffer;
    Access access = Access::read;
    bool last = false; ///< the content ends with this instruction

    friend bool operator==(Use const&, Use const&) = default;
};

/// Sequences are counted within the batch of the step.
struct Compute {
    core::ChunkId chunk;
    core::Range layers;
    core::MicrobatchId microbatch;
    core::Range sequences;

    friend bool operator==(Compute const&, Compute const&) = default;
};
/// Keeps what Backward needs, or, where the plan recomputes the chunk, only the chunk's input; then
/// the last chunk, whose output nobody needs, computes nothing.
struct Forward : Compute {
    bool evaluate = false; ///< keeps nothing; the head gives losses
};
/// Forward again from the chunk's input, for what its Backward needs.
struct Recompute : Compute {};
/// `clears`: buckets whose gradient starts here from zero.
struct Backward : Compute { ///< BackwardInput and BackwardWeight fused
    std::vector<core::BucketId> clears;
};
struct BackwardInput : Compute {
    std::vector<core::BucketId> clears;
};
struct BackwardWeight : Compute {
    std::vector<core::BucketId> clears;
};
/// Hidden states between chunk `chunk` and the next (forward), or the gradient for chunk `chunk`
/// from the next (backward). `bytes` is exact: sequences x boundary width in the boundary's wire
/// type.
struct Message {
    core::RankId peer;
    Direction direction = Direction::forward;
    core::ChunkId chunk; ///< the earlier chunk of the boundary
    core::MicrobatchId microbatch;
    core::Range sequences;
    std::int64_t bytes = 0;

    friend bool operator==(Message const&, Message const&) = default;
};
struct Send : Message {};
struct Receive : Message {};
struct GatherParameters {
    core::BucketId bucket;
};
struct ReduceGradients {
    core::BucketId bucket;
};
/// Squares of the reduced gradients this rank owns, per slice, for the global norm.
struct MeasureGradients {
    core::BucketId bucket;
};
/// Valid tokens of the next step in the sequences that this rank's heads will see.
struct CountTokens {};
/// Losses, valid tokens and squares of all ranks, added in canonical order on rank 0, to all.
struct ReduceScalars {};
struct UpdateParameters {
    core::BucketId bucket;
};
/// A copy of all bytes between a buffer of the device and its home in pinned memory. `kind` is that
/// of the device's buffer: weights (Fetch, into a buffer per residence `slot`), shards, reduced
/// gradients (Evict also from `gradients`, where the bucket has one member), updated weights (Evict,
/// into the shard's part of the weights' home), kept and inputs.
struct Copy {
    BufferKind kind = BufferKind::weights;
    core::BucketId bucket{};         ///< weights, shards, reduced, gradients, updated
    core::ChunkId chunk{};           ///< kept, inputs
    core::MicrobatchId microbatch{}; ///< kept, inputs
    std::int64_t slot = 0;           ///< of weights: which of the pass's residences
    std::int64_t bytes = 0;

    friend bool operator==(Copy const&, Copy const&) = default;
};
struct Fetch : Copy {}; ///< from pinned memory to the device
struct Evict : Copy {}; ///< from the device to pinned memory

using Operation = std::variant<Forward, Recompute, Backward, BackwardInput, BackwardWeight, Send,
                               Receive, GatherParameters, ReduceGradients, MeasureGradients,
                               CountTokens, ReduceScalars, UpdateParameters, Fetch, Evict>;

struct Instruction {
    Operation operation;
    core::QueueId queue;
    std::vector<core::InstructionId> after; ///< earlier in the list; ascending
    std::vector<Use> uses;
};

struct Program {
    core::RankId rank;
    std::vector<Queue> queues;
    std::vector<Buffer> buffers;
    std::vector<Instruction> instructions;
    std::int64_t arena_bytes = 0;  ///< the largest offset + bytes in the device's memory
    std::int64_t pinned_bytes = 0; ///< likewise in pinned memory; 0 on ranks that do not offload
};

enum class ProgramKind : std::uint8_t { train, evaluate };

/// The programs of all ranks for one pass, with what they refer to.
struct ProgramSet {
    ProgramKind kind = ProgramKind::train;
    Plan plan;
    std::vector<Bucket> buckets;
    std::vector<Program> programs; ///< indexed by rank
};

/// Bytes of one of a rank's memories by use, for the start table.
struct MemoryTable {
    std::int64_t bytes[buffer_kind_count] = {}; ///< sum of the buffers of each kind at the peak
    std::int64_t total_bytes = 0;               ///< of the region
};
MemoryTable memory_table(Program const& program, Memory memory = Memory::device);

std::string_view name_of(BufferKind kind);
std::string_view name_of(Memory memory);
std::string_view name_of(QueueKind kind);
std::string_view name_of(Direction direction);

/// Tag of a message on its direction's communicator: chunk and microbatch.
std::int64_t message_tag(Message const& message, std::int64_t microbatch_count);

/// One line per queue, buffer and instruction.
std::string to_string(Program const& program);
std::string to_string(Instruction const& instruction);
/// Its first words: "backward chunk=1 ...".
std::string to_string(Operation const& operation);

} // namespace evener::program
