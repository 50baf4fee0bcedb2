// SPDX-License-Identifier: Apache-2.0
#pragma once

// Typed indices: a rank is not a microbatch. All count from 0. `value` is public because every use
// is an index into some vector; what matters is that two kinds cannot be mixed by accident.

#include <compare>
#include <cstdint>
#include <functional>

namespace evener::core {

template <class Tag>
struct Id {
    std::int32_t value = -1;

    constexpr Id() = default;
    constexpr explicit Id(std::int64_t v) : value{static_cast<std::int32_t>(v)} {}
    constexpr std::size_t index() const { return static_cast<std::size_t>(value); }
    constexpr bool valid() const { return value >= 0; }
    friend constexpr auto operator<=>(Id, Id) = default;
};

using RankId = Id<struct RankTag>;               ///< rank in MPI_COMM_WORLD
using GroupId = Id<struct GroupTag>;             ///< stage group of a plan
using ChunkId = Id<struct ChunkTag>;             ///< run of layers, in model order
using LayerId = Id<struct LayerTag>;             ///< layer of the model, in model order
using ParameterId = Id<struct ParameterTag>;     ///< parameter of the model, in canonical order
using BucketId = Id<struct BucketTag>;           ///< parameters with the same holders
using MicrobatchId = Id<struct MicrobatchTag>;   ///< microbatch of one step
using BufferId = Id<struct BufferTag>;           ///< buffer of one rank's program
using InstructionId = Id<struct InstructionTag>; ///< place in one rank's program
using QueueId = Id<struct QueueTag>;             ///< in-order queue of one rank's program

} // namespace evener::core

template <class Tag>
struct std::hash<evener::core::Id<Tag>> {
    std::size_t operator()(evener::core::Id<Tag> id) const noexcept {
        return std::hash<std::int32_t>{}(id.value);
    }
};
