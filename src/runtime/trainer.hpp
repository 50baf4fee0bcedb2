// SPDX-License-Identifier: Apache-2.0
#pragma once

// The training loop: passes, optimizer scalars, metrics, validation, checkpoints. Everything a step
// needs is a function of the step number and the state, so a resumed run goes on to the bit.

#include "comm/mpi_session.hpp"
#include "io/metrics.hpp"
#include "job/job.hpp"
#include "runtime/report.hpp"
#include "runtime/saving.hpp"
#include "runtime/session.hpp"
#include "runtime/slow_ranks.hpp"
#include "runtime/time_limit.hpp"
#include "runtime/watchdog.hpp"

#include <chrono>
#include <functional>
#include <optional>

namespace evener::runtime {

struct TrainerInput {
    job::Job const& job;
    comm::MpiSession const& mpi;
    Session& session;
    TokenSource const& tokens;
    TokenSource const* validation = nullptr; ///< null: no validation data
    std::int64_t validation_batches = 0;     ///< of all its samples
    checkpoints::TrainingState state; ///< from a checkpoint, or fresh: seed, optimizer, fingerprint
    checkpoints::KeyValues model;     ///< description for the checkpoints
    std::string job_toml;
    std::string plan_toml;
    std::string schedule_csv; ///< for checkpoints; empty where the plan says it all
    std::string creator;
    double matrix_gflops = 0;         ///< measured, of all ranks together
    std::vector<bool> may_write = {}; ///< as in SavingRanks
    /// Called on every rank after the training pass of each step (from 1 on), before anything else
    /// runs on the session; its time is not the step's. May be collective, may be empty.
    std::function<void(std::int64_t)> after_pass;
    /// Called on every rank behind a step in which SIGUSR2 reached rank 0: exchanges the session's
    /// training programs and returns the orders now in force for the checkpoints, or nothing where
    /// they stay. May be empty.
    std::function<std::optional<std::string>()> exchange_schedule;
    std::optional<Deadline> deadline; ///< rank 0's counts
    Status* status = nullptr;         ///< null: nobody asks
    Watchdog* watchdog = nullptr;     ///< null: nobody watches
    ComputePrediction prediction;     ///< the same on all ranks; empty: no rank is called slow
};

/// How training ended: with the job's last step, or before, because of a signal or the deadline.
enum class RunEnd : std::uint8_t { finished, stopped_early };

class Trainer {
  public:
    explicit Trainer(TrainerInput input);

    /// Runs to the job's last step, or to an earlier one behind which all ranks agree to stop. What
    /// was trained is saved in both cases. Throws core::Error when loss or gradient is not finite
    /// and the job says stop, or too many steps in a row were skipped.
    RunEnd run();

    /// Mean loss over the validation set in nats per token. Collective.
    double validate();

  private:
    /// Returns the Request bits that ranks gave with it.
    std::int64_t step();
    void enter(Phase phase);
    bool stop_before_training();
    std::int64_t requests();
    bool validates(std::int64_t step) const;
    bool saves(std::int64_t step) const;
    void say_how_to_go_on(bool trained);
    void set_optimizer_scalars(double rate);
    /// False when the step was skipped.
    bool accept(StepScalars const& scalars);
    void prepare_step(double rate);
    io::MetricsRecord record_of(StepScalars const& scalars, double rate, double seconds) const;
    void write_metrics(io::MetricsRecord const& record);
    void exchange_schedule();
    void name_slow_ranks();
    void save();
    /// Where a save ended or ends now, says so.
    void report(std::optional<SavedCheckpoint> const& saved);
    void write_gradients();
    checkpoints::Description description(checkpoints::TrainingState const& state) const;

    TrainerInput input_;
    Session& session_;
    Saver saver_;
    std::optional<Saver> gradient_saver_;
    std::optional<io::MetricsWriter> metrics_; ///< rank 0
    Reporter reporter_;
    std::optional<TimeLimit> time_limit_; ///< rank 0, where there is a deadline
    std::optional<SlowRanks> slow_ranks_; ///< where several ranks have a prediction
    double validation_seconds_ = 0;       ///< of the step that runs
    std::int64_t tokens_of_step_ = 0;
    std::int64_t skipped_in_a_row_ = 0;
    std::chrono::steady_clock::time_point last_save_ = std::chrono::steady_clock::now();
};

/// Valid tokens of the batch of `step`, counted by the ranks that have a head. Collective.
std::int64_t count_tokens(comm::Communicator const& world, Session& session,
                          TokenSource const& tokens, std::int64_t step);

/// Mean loss of a token source over `batches` passes in nats per valid token. Collective.
double evaluate(Session& session, TokenSource const& tokens, std::int64_t batches);

} // namespace evener::runtime
