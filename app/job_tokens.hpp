// SPDX-License-Identifier: Apache-2.0
#pragma once

// A job's tokens on every rank, whether it sees the data or not.

#include "checkpoints/records.hpp"
#include "runtime/session.hpp"
#include "runtime/shared_tokens.hpp"

#include "app/job_setup.hpp"

namespace evener::app {

class JobTokens {
  public:
    /// Collective. `state`: where training goes on from.
    JobTokens(comm::MpiSession const& mpi, JobData const& data, job::Job const& job,
              runtime::Session const& session, checkpoints::TrainingState const& state);
    JobTokens(JobTokens const&) = delete;
    JobTokens& operator=(JobTokens const&) = delete;

    runtime::TokenSource const& train() const;
    /// Null where the job names no validation data.
    runtime::TokenSource const* validation() const;

  private:
    std::optional<io::SampleOrder> order_;
    std::optional<runtime::TrainingTokens> own_train_; ///< of ranks that see the data
    std::optional<runtime::ValidationTokens> own_validation_;
    std::optional<runtime::SharedTokens> shared_train_; ///< where some do not
    std::optional<runtime::SharedTokens> shared_validation_;
};

} // namespace evener::app
