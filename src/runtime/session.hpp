// SPDX-License-Identifier: Apache-2.0
#pragma once

// All that depends on a plan: arena, executables, boards. A process can destroy a session and make
// another one with another plan. Collective: all ranks make it, run the same passes in the same
// order and destroy it together.

#include "comm/transport.hpp"
#include "device/arena.hpp"
#include "program/measurement.hpp"
#include "runtime/device_exchange.hpp"
#include "runtime/device_pass.hpp"
#include "runtime/executable.hpp"
#include "runtime/memory_map.hpp"
#include "runtime/pinned_memory.hpp"
#include "runtime/status.hpp"

#include <atomic>
#include <memory>
#include <optional>

namespace evener::runtime {

struct SessionInput {
    core::RankId rank;
    model::Model const& model;
    OperationCache& cache;
    comm::Transport& transport;
    std::optional<program::ProgramSet> train; ///< none: the session only evaluates
    program::ProgramSet evaluate;
    std::int64_t device_workspace_bytes = 0; ///< of this rank, as lowering was told
    device::ArenaOptions arena;
    bool adamw = true;
    HeadOutput head = HeadOutput::losses; ///< of the evaluation
    bool keep_gradients = false;          ///< copies of the reduced gradients, for BucketMemory
    /// A rehearsal: seconds by instruction of this rank's training program, which the instructions
    /// of the compute queue then sleep instead of computing. Messages and waits are real.
    std::vector<double> rehearsal_seconds = {};
    DeviceExchange exchange = {}; ///< nothing: by way of host memory
    Status* status = nullptr;     ///< where passes say what they are at; null: nowhere
};

class Session {
  public:
    explicit Session(SessionInput input);

    program::Plan const& plan() const { return evaluate_set_.plan; }
    std::vector<program::Bucket> const& buckets() const { return sets().buckets; }
    program::ProgramSet const& sets() const { return train_set_ ? *train_set_ : evaluate_set_; }
    model::Model const& model() const { return model_; }
    core::RankId rank() const { return rank_; }
    device::Device const& device() const { return cache_.device(); }
    std::vector<BucketMemory> const& memory() const { return memory_; }
    StepState& state() { return state_; }
    std::int64_t arena_bytes() const { return arena_->size(); }
    std::vector<float> const& logits() const { return logits_; }

    /// One pass. state() holds the step, scale and optimizer scalars before and the scalars after.
    /// Throws what an instruction threw on this rank, or core::CommError.
    void run_train(TokenSource const& tokens);
    void run_evaluate(TokenSource const& tokens);
    /// The sequences of a batch whose tokens this rank reads in a pass, ascending and once each.
    std::vector<std::int64_t> sequences_read() const;
    /// The position whose logits an evaluation with HeadOutput::logits gives.
    void set_position(std::int64_t position) { position_ = position; }

    /// Exchanges the training programs for others of the same plan (another order of work) between
    /// two passes. Weights and moments stay; a larger arena takes them over. Collective in the sense
    /// that all ranks must do it before the next pass.
    void exchange_train(program::ProgramSet set);

    /// What the rank's pinned memory is for.
    PinnedNeeds const& pinned() const { return pinned_.needs(); }

    /// Whether the host can read and write what BucketMemory points at there.
    bool reaches(void const* address) const;
    /// Between such memory and ordinary memory, between passes.
    void upload(void* dst, void const* src, std::int64_t bytes) const;
    void download(void* dst, void const* src, std::int64_t bytes) const;

    /// Goes up with what moves within instructions. By any thread, also during a pass.
    std::uint64_t moves() const noexcept {
        return transport_.moves() + calls_.load(std::memory_order_relaxed);
    }

    /// When each instruction of the last training pass ran on this rank.
    comm::Board const& train_board() const { return *train_->board; }
    /// How long its instructions of the compute queue took, together.
    double compute_seconds() const;
    /// How long its layers took.
    program::RankMeasurement train_measurement() const;

    /// Rounds this rank's master weights into its weights: after initialization and loading.
    void refresh_weights();

  private:
    struct Pass {
        StepState* state = nullptr;
        Executable executable;
        std::unique_ptr<comm::Board> board;
        std::unique_ptr<DevicePass> device;    ///< null where the device computes in host memory
        std::vector<double> rehearsal_seconds; ///< empty: it computes
        std::vector<StatusWords> words;        ///< by instruction; empty without a status
    };

    /// Of a SessionInput, what executables are made with.
    struct ExecutableOptions {
        std::int64_t device_workspace_bytes = 0;
        bool adamw = true;
        HeadOutput head = HeadOutput::losses;
        bool keep_gradients = false;
    };

    std::vector<program::ProgramSet const*> all_sets() const;
    std::vector<program::Buffer> persistent(program::Memory memory) const;
    Executable executable_of(program::ProgramSet const& set, StepState& state, std::byte* numbers);
    void make_pinned();
    void make_arena();
    void make_executables();
    void prepare(Pass& pass, program::ProgramSet const& set);
    void stage();
    Regions regions() const { return {arena_->at(0), pinned_.homes()}; }
    void run_instructions(Pass& pass, TokenSource const& tokens);
    void begin(Pass& pass, std::size_t place, TokenSource const& tokens);
    void say_wait(Pass const& pass, std::size_t place) const;
    bool is_whole(Pass const& pass, std::size_t place) const;
    void end(Pass& pass, std::size_t place);
    bool passes_over(Pass const& pass, Call const& call) const;
    void run(Pass& pass, TokenSource const& tokens);
    void execute(Pass& pass, IssuedInstruction const& instruction, TokenSource const& tokens);
    void enqueue(Pass& pass, std::size_t place, TokenSource const& tokens);
    void start_collective(Call const& call) const;
    void sleep_instead(Pass const& pass, core::InstructionId id) const;
    void call(Pass& pass, Call const& call, TokenSource const& tokens);
    void load(Pass& pass, Call const& call, TokenSource const& tokens);
    void check_tokens(std::span<std::int32_t const> tokens, std::int32_t lowest) const;

    core::RankId rank_;
    model::Model const& model_;
    OperationCache& cache_;
    comm::Transport& transport_;
    std::optional<program::ProgramSet> train_set_;
    program::ProgramSet evaluate_set_;
    ExecutableOptions options_;
    DeviceExchange exchange_;
    Status* status_;
    std::atomic<std::uint64_t> calls_ = 0; ///< of the compute thread
    device::ArenaOptions arena_options_;
    std::unique_ptr<device::Arena> arena_;
    StepState state_;
    StepState evaluate_state_;
    PinnedMemory pinned_;
    float* shared_logits_ = nullptr; ///< where the device writes them, behind the numbers
    std::vector<float> logits_;
    std::vector<BucketMemory> memory_;
    std::optional<Pass> train_;
    Pass evaluate_;
    std::int64_t position_ = 0;
    std::vector<program::Spent> clock_;       ///< by bin, of the last pass
    std::vector<std::int32_t> unused_tokens_; ///< the half of a sample that a load does not want
};

} // namespace evener::runtime
