// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one region of pinned host memory of a rank whose device has a memory of its own: homes of what
// is offloaded, staging of messages and exchanges, tokens on their way to the device, numbers that
// host and device share. Its size follows from the programs, so that it is known, and had, before
// step 1. On other ranks the same parts are ordinary memory, and those that only copies need are
// empty.

#include "device/memory.hpp"
#include "program/program.hpp"
#include "runtime/device_exchange.hpp"

#include <span>

namespace evener::runtime {

/// Bytes by use; each part starts at a multiple of 256.
struct PinnedNeeds {
    std::int64_t homes = 0;     ///< Program::pinned_bytes
    std::int64_t staging = 0;   ///< messages, reductions and gathers
    std::int64_t tokens = 0;    ///< of a pass
    std::int64_t numbers = 0;   ///< scalars, losses, norms, logits
    std::int64_t gradients = 0; ///< copies, where the session keeps them
    std::int64_t block = 0;     ///< through which memory is read and written between passes

    std::int64_t total() const;
};

struct PinnedInput {
    std::span<program::ProgramSet const* const> sets; ///< that the rank runs
    core::RankId rank;
    model::Model const& model;
    DeviceExchange const& exchange;
    bool own_memory = false; ///< of the rank's device
    bool keep_gradients = false;
    bool logits = false;
};

PinnedNeeds pinned_needs(PinnedInput const& input);

/// Squares that the rank's MeasureGradients instructions give.
std::size_t square_count(program::ProgramSet const& set, core::RankId rank);
/// Token ids that its loads bring, at most.
std::int64_t token_bytes(program::ProgramSet const& set, core::RankId rank,
                         model::Model const& model);

/// The region with the addresses of its parts.
class PinnedMemory {
  public:
    PinnedMemory() = default;
    /// Zeros. Throws core::DeviceError with what the bytes are for, the limits and the remedies.
    PinnedMemory(device::Device const& device, core::RankId rank, PinnedNeeds const& needs);

    /// Other needs in the same region, if they fit it; homes stay where they are.
    bool take(PinnedNeeds const& needs);

    PinnedNeeds const& needs() const { return needs_; }
    std::byte* homes() const { return memory_.data(); }
    std::byte* staging() const { return homes() + behind(needs_.homes); }
    std::byte* tokens() const { return staging() + behind(needs_.staging); }
    std::byte* numbers() const { return tokens() + behind(needs_.tokens); }
    std::byte* gradients() const { return numbers() + behind(needs_.numbers); }
    std::span<std::byte> block() const;

    bool holds(void const* address) const;

  private:
    static std::int64_t behind(std::int64_t bytes) { return core::round_up(bytes, 256); }

    device::Allocation memory_;
    PinnedNeeds needs_;
};

/// Throws core::DeviceError when the device has not what the rank's arena needs: with the numbers,
/// the rows of its memory table and the levers.
void require_device_memory(device::Device const& device, program::Program const& program,
                           std::int64_t bytes);

} // namespace evener::runtime
