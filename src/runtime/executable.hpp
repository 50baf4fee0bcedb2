// SPDX-License-Identifier: Apache-2.0
#pragma once

// A program made ready to run: every instruction of the compute and copy queues as calls with
// resolved pointers, every other queue as tasks of the transport. Decides nothing: what is computed,
// in which order and where it lies is the program's; this only looks it up.

#include "comm/tasks.hpp"
#include "model/chunk_layout.hpp"
#include "program/program.hpp"
#include "runtime/device_exchange.hpp"
#include "runtime/memory_map.hpp"
#include "runtime/operation_cache.hpp"
#include "runtime/shared_numbers.hpp"
#include "runtime/step_state.hpp"
#include "runtime/tokens.hpp"

#include <array>
#include <memory>
#include <string>
#include <vector>

namespace evener::runtime {

inline constexpr std::size_t most_operands = 6;

/// One step of an issued instruction.
struct Call {
    enum class Kind : std::uint8_t {
        kernel,
        load_inputs,
        load_targets,
        copy,         ///< `bytes` to operands[0] from operands[1], on the instruction's stream
        reduce,       ///< operands[0], the whole gradient, to operands[1], the shards of the owners
        gather,       ///< the owners' shards of operands[0] to all
        select_row,   ///< one row of operands[0], at the session's position, to operands[1]
        count_tokens, ///< of the next step
        skip_if_not_finite, ///< the rest of the instruction is left out then
    };

    Kind kind = Kind::kernel;
    device::PreparedOperation const* operation = nullptr;
    std::array<void*, most_operands> operands{};
    std::size_t operand_count = 0;
    core::Range sequences;   ///< of loads
    void* staging = nullptr; ///< of loads: pinned, on devices with a memory of their own
    std::int64_t bytes = 0;  ///< of a copy or a selected row
    core::DType type = core::DType::float32; ///< of what is gathered
    std::shared_ptr<std::vector<kernels::GroupPart> const> parts =
        nullptr; ///< of reduce and gather
    /// Where its time is counted: one of the rank's clock bins, -1 = nowhere; and for how much.
    std::int32_t bin = -1;
    double amount = 0;
};

/// Bins of a rank's clock: three phases of each layer, then the boundaries.
enum class LayerPhase : std::uint8_t { forward, backward_input, backward_weight };
constexpr std::int32_t clock_bin(core::LayerId layer, LayerPhase phase) {
    return 3 * layer.value + static_cast<std::int32_t>(phase);
}
inline std::int32_t boundary_bin(model::Model const& model) {
    return static_cast<std::int32_t>(3 * model.layer_count());
}

/// What the compute thread runs itself or, on a device with a memory of its own, enqueues.
struct IssuedInstruction {
    core::InstructionId id;
    kernels::StreamKind stream = kernels::StreamKind::compute;
    std::string name; ///< for messages: "backward chunk=1 microbatch=3 ..."
    std::vector<core::InstructionId> after;
    std::vector<Call> calls;
};

/// Purpose of an evaluation program: losses, or logits of one position for sampling.
enum class HeadOutput : std::uint8_t { losses, logits };

struct Executable {
    std::vector<IssuedInstruction> issued; ///< in list order
    std::vector<comm::TransportQueue> transport;
    std::size_t instructions = 0;                 ///< of the program, for the board
    void* workspace = nullptr;                    ///< of the device's operations
    std::shared_ptr<SharedNumbers const> numbers; ///< that operations read and write
};

struct ExecutableInput {
    program::ProgramSet const& set;
    core::RankId rank;
    model::Model const& model;
    OperationCache& cache;
    Regions regions;
    std::byte* kept_gradients = nullptr; ///< see map_buckets
    std::byte* numbers = nullptr;        ///< SharedNumbers::bytes, seen by host and device
    DeviceExchange exchange;
    std::int64_t device_workspace_bytes = 0; ///< what lowering was told for this rank
    StepState& state;                        ///< must outlive the executable
    bool adamw = true;                       ///< else SGD
    HeadOutput head = HeadOutput::losses;
    float* logits =
        nullptr; ///< shared memory, [vocabulary], on ranks with the head, for HeadOutput::logits
};

Executable make_executable(ExecutableInput const& input);

} // namespace evener::runtime
