// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the transport thread does in one pass, as data: made once from a program, run every pass.
// Pointers must stay valid; what they point at is read and written between a task's start and end.

#include "core/ids.hpp"
#include "core/types.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace evener::comm {

/// Each has a communicator of its own.
enum class Direction : std::uint8_t { forward, backward };

/// A send ends when its data may be overwritten.
struct SendTask {
    core::RankId peer;
    Direction direction = Direction::forward;
    std::int64_t tag = 0;
    std::byte const* data = nullptr;
    std::int64_t bytes = 0;
};

/// A message of another size is an error.
struct ReceiveTask {
    core::RankId peer;
    Direction direction = Direction::forward;
    std::int64_t tag = 0;
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
};

/// Elements [begin, end) of a bucket and who owns them; `type` is that of the owner's weights (for
/// gathers).
struct OwnedPart {
    core::RankId owner;
    core::Range elements;
    core::DType type = core::DType::float32;
};

/// A rank that takes part in a gather as reader.
struct Holder {
    core::RankId rank;
    core::DType type = core::DType::float32;
};

/// The owners' shards become the sum of the contributions, added in ascending order of rank, in
/// float32; without contributors they become 0. Every contributor and every owner runs it, with
/// equal lists.
///
/// Example: contributors 0, 2, 3; shards {2: [0, 70)}, {5: [70, 100)}. Ranks 0 and 3 send elements
/// [0, 70) to 2, which computes (g0 + g2) + g3; 0, 2 and 3 send [70, 100) to 5.
struct ReduceTask {
    std::vector<core::RankId> contributors; ///< ascending
    std::vector<OwnedPart> shards;
    float const* gradient = nullptr; ///< whole bucket of this rank; null: not a contributor
    float* reduced = nullptr;        ///< this rank's shard; null: owns nothing
    std::int64_t tag = 0;            ///< differs from that of other collectives in flight
};

/// The owners' shards of the weights go to all holders, in place. Where owner and holder have
/// different types the owner sends float32 master values and the holder rounds them. Every owner
/// and every holder runs it, with equal lists.
struct GatherTask {
    std::vector<OwnedPart> shards;
    std::vector<Holder> holders;
    std::byte* weights = nullptr; ///< this rank's buffer, in its own type
    core::Range weights_range;    ///< elements of the bucket that it covers
    float const* master =
        nullptr; ///< this rank's shard; null: owns nothing, or all types are equal
    std::int64_t tag = 0;
};

/// Every rank's bytes come to rank 0 in order of rank, the combined bytes go to every rank. All
/// ranks run it. The functions are called by whoever has the transport's turn and must not use
/// OpenMP.
struct ScalarsTask {
    std::function<std::vector<std::byte>()> contribute;
    /// On rank 0 only.
    std::function<std::vector<std::byte>(std::vector<std::vector<std::byte>> const&)> combine;
    std::function<void(std::span<std::byte const>)> receive;
};

using Work = std::variant<SendTask, ReceiveTask, ReduceTask, GatherTask, ScalarsTask>;

/// Between a device's own memory and the staging that the work uses.
struct DeviceCopy {
    void* dst = nullptr;
    void const* src = nullptr;
    std::int64_t bytes = 0;
};

/// Starts when all `after` are done on the board; published there as `id` when it ends.
struct Task {
    core::InstructionId id;
    std::vector<core::InstructionId> after;
    Work work;
    std::vector<DeviceCopy> outward = {}; ///< before the work; empty on host devices
    std::vector<DeviceCopy> inward = {};  ///< behind it
};

/// Tasks start in order. On a receive queue the next may start while earlier ones are in flight
/// (they end in order), on the others when the one before has ended.
struct TransportQueue {
    enum class Kind : std::uint8_t { send, receive, collective };
    Kind kind = Kind::send;
    std::vector<Task> tasks;
};

/// "instruction 12 (receive of 1024 bytes from rank 1, tag 7, forward)"
std::string describe(Task const& task);

} // namespace evener::comm
