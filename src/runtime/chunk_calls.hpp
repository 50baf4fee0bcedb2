// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernel calls of Forward, Recompute and the Backward kinds: the operations that the layers list,
// with their areas resolved to addresses, and the copies between the chunk and its messages.

#include "runtime/executable.hpp"
#include "runtime/memory_map.hpp"

#include <map>

namespace evener::runtime {

class ChunkCalls {
  public:
    ChunkCalls(ExecutableInput const& input, program::Program const& program,
               std::vector<BucketMemory> const& memory, SharedNumbers const& numbers);

    void* device_workspace() const { return workspace_ + workspace_bytes_; }

    std::vector<Call> make(program::Forward const& op, program::Instruction const& instruction,
                           core::InstructionId id);
    std::vector<Call> make(program::Recompute const& op, program::Instruction const& instruction,
                           core::InstructionId id);
    std::vector<Call> make(program::Backward const& op, program::Instruction const& instruction,
                           core::InstructionId id);
    std::vector<Call> make(program::BackwardInput const& op,
                           program::Instruction const& instruction, core::InstructionId id);
    std::vector<Call> make(program::BackwardWeight const& op,
                           program::Instruction const& instruction, core::InstructionId id);

  private:
    /// Base addresses of a layer's areas.
    struct Areas {
        std::byte* kept = nullptr;
        std::byte* kept_for_weights = nullptr;
        std::byte* scratch = nullptr;
        std::byte* output = nullptr;
        std::byte* grad_input = nullptr;
    };

    model::ChunkLayout const& layout_of(program::Compute const& op);
    /// Where a forward pass finds its areas: whole in `kept`, or in turns in the workspace.
    struct ForwardAreas {
        std::byte* kept = nullptr;
        model::Workspace const& workspace;
    };

    UsedBuffers used() const { return {program_, *instruction_, input_.regions}; }
    /// One that the instruction must use.
    std::byte* buffer(program::BufferKind kind, core::BucketId bucket = {}) const;
    void* resolve(model::Operand operand, Areas const& areas, core::LayerId layer,
                  core::Range sequences) const;
    void add_phase(std::vector<Call>& calls, std::vector<model::Operation> const& operations,
                   Areas const& areas, core::LayerId layer, core::Range sequences);
    /// Counts the time of the calls from `first` on, in all for `amount`.
    static void count_time(std::vector<Call>& calls, std::size_t first, std::int32_t bin,
                           double amount);
    void add_next_token(std::vector<Call>& calls, model::LayerOperations const& head,
                        Areas const& areas, core::LayerId layer);
    kernels::OperationShape first_write(model::Operation const& operation, core::LayerId layer);
    /// Clears of what starts from zero in this instruction and no product overwrites.
    std::vector<Call> take_clears();

    /// Copies what arrived for this instruction into `tensor`, or `tensor` into what leaves.
    void add_pieces(std::vector<Call>& calls, program::Compute const& op,
                    program::Instruction const& instruction, core::InstructionId id,
                    program::Access access, std::byte* tensor, core::DType type);
    /// Sequences and wire type of the message in a buffer that this instruction reads or writes.
    program::Message message_of(core::BufferId buffer, core::InstructionId id,
                                program::Access access) const;
    void add_convert(std::vector<Call>& calls, std::byte* src, core::DType src_type, std::byte* dst,
                     core::DType dst_type, std::int64_t elements);
    void add_layers(std::vector<Call>& calls, program::Compute const& op,
                    ForwardAreas const& places, model::Phase phase);
    void add_kept_input(std::vector<Call>& calls, program::Compute const& op,
                        std::byte* first_area);
    std::vector<Call> dropping(program::Forward const& op, program::Instruction const& instruction,
                               core::InstructionId id);
    void add_backward(std::vector<Call>& calls, program::Compute const& op,
                      std::vector<core::BucketId> const& clears,
                      program::Instruction const& instruction, core::InstructionId id,
                      model::ChunkPass pass);

    ExecutableInput const& input_;
    program::Program const& program_;
    std::vector<BucketMemory> const& memory_;
    SharedNumbers const& numbers_;
    program::Instruction const* instruction_ = nullptr; ///< at hand
    std::byte* workspace_ = nullptr;
    std::int64_t workspace_bytes_ = 0; ///< in front of the device's own
    std::map<core::ParameterId, std::pair<core::BucketId, std::int64_t>> places_;
    std::map<std::pair<core::ChunkId, std::int64_t>, model::ChunkLayout> layouts_;
    // Of the instruction at hand: parts of gradients that start from zero and that no operation has
    // touched yet, and those that must be cleared in front.
    std::map<core::BucketId, std::vector<core::Range>> untouched_;
    std::map<core::BucketId, std::vector<core::Range>> to_clear_;
};

} // namespace evener::runtime
