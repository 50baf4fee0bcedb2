// SPDX-License-Identifier: Apache-2.0
#pragma once

// A training session without job files, for benches: random tokens, random weights, AdamW.

#include "comm/mpi_session.hpp"
#include "device/plugin.hpp"
#include "program/costs.hpp"
#include "program/schedule.hpp"
#include "runtime/session.hpp"

#include <memory>
#include <vector>

namespace evener::bench {

/// The model of the speed figures: width 512, 8 layers, 8 heads, feed-forward 1408, vocabulary
/// 8192, 512 tokens.
model::ModelConfig speed_model();

/// `groups` stages of one rank each, with the layers cut at `cuts` (first layer of each group).
program::Plan chain_plan(model::Model const& model, std::vector<std::int64_t> const& cuts,
                         std::int64_t batch_size, std::int64_t microbatch_size, core::DType type);

/// Token ids from a hash of (step, sequence, position).
class HashedTokens final : public runtime::TokenSource {
  public:
    explicit HashedTokens(std::int64_t vocabulary) : vocabulary_{vocabulary} {}
    void read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const override;
    std::int64_t valid_targets(std::int64_t, std::int64_t) const override;

  private:
    std::int64_t vocabulary_;
};

struct TrainingOptions {
    int threads = 1;
    program::Schedule const* schedule = nullptr; ///< null: the plan's generator makes it
    program::Costs const* costs = nullptr;       ///< for the number of buffers
    /// Not 0: the computations of the schedule sleep for so long instead of computing, and all
    /// others take no time.
    double work_seconds = 0;
};

class Training {
  public:
    Training(comm::MpiSession const& mpi, comm::Transport& transport, model::Model const& model,
             program::Plan const& plan, TrainingOptions const& options = {});

    /// Seconds of one training step, from a barrier to the end on this rank.
    double step();

    device::Device& device() { return *device_; }
    runtime::Session& session() { return *session_; }

  private:
    comm::MpiSession const& mpi_;
    std::unique_ptr<device::Device> device_;
    runtime::OperationCache cache_;
    HashedTokens tokens_;
    std::unique_ptr<runtime::Session> session_;
};

double median(std::vector<double> values);

} // namespace evener::bench
