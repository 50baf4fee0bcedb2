// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which memory an instruction reads and writes, and what it computes from the symbols it read.

#include "model/chunk_layout.hpp"
#include "model/model.hpp"
#include "program/program.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace evener::support {

/// Device and pinned memory are the program's; besides them a rank has memory for losses, squares,
/// token counts and their sums, one byte each.
enum class Space : std::uint8_t { device, pinned, scalars };
inline constexpr std::size_t space_count = 3;

enum class Role : std::uint8_t {
    input,
    output,
    change,   ///< read, then written: poisoned from the read on
    gradient, ///< changed by adding, or written where `clears` says so
    scratch,  ///< written at the start and still the same at the end
    saved,    ///< an output that gets the sum of the inputs marked `saved`, as `recalled` reads it
    recalled, ///< an input that counts as the inputs whose sum it is
};

struct Operand {
    Space space = Space::device;
    std::int64_t offset = 0;
    std::int64_t bytes = 0;
    Role role = Role::input;
    std::uint64_t label = 0; ///< what it is to the instruction
    bool clears = false;     ///< of a gradient
    bool saved = false;      ///< of an input, a piece of a chunk's input
};

struct Footprint {
    std::uint64_t operation = 0; ///< hash of what is computed
    std::vector<Operand> operands;
    std::vector<std::string> faults;
};

/// Addresses of scalars.
struct ScalarAddresses {
    static constexpr std::int64_t tokens = 0;
    static constexpr std::int64_t sums = 1;
    static std::int64_t squares(core::BucketId bucket) { return 1000 + bucket.value; }
    static std::int64_t loss(core::MicrobatchId microbatch) { return 100000 + microbatch.value; }
};

class Footprints {
  public:
    Footprints(program::ProgramSet const& set, model::Model const& model)
        : set_{set}, model_{model} {}

    Footprint of(core::RankId rank, core::InstructionId id);

    /// Bytes [offset, +bytes) of a shard within the weights of a member.
    static std::pair<std::int64_t, std::int64_t>
    weights_piece(program::Bucket const& bucket, core::RankId rank, core::Range elements);
    static bool has_mixed_types(program::Bucket const& bucket);

  private:
    struct Add;
    program::ProgramSet const& set_;
    model::Model const& model_;
    std::map<std::pair<core::ChunkId, std::int64_t>, model::ChunkLayout> layouts_;
};

} // namespace evener::support
