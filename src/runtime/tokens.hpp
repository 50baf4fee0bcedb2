// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the token ids of a pass come from: a pure function of (step, sequence of the batch), so any
// rank can read any sequence under any plan.

#include "io/sample_order.hpp"
#include "io/token_stream.hpp"

#include <cstdint>
#include <span>

namespace evener::runtime {

class TokenSource {
  public:
    virtual ~TokenSource() = default;
    /// Called by every rank before a pass of `step`, which then reads tokens of that step and counts
    /// valid targets of the next. Sources that tokens have to be brought to do so here.
    virtual void prepare(std::int64_t /*step*/) const {}
    /// Fills both, sequence_length each; a masked target is -1. Thread-safe.
    virtual void read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
                      std::span<std::int32_t> targets) const = 0;
    /// Targets of a sequence that are not masked.
    virtual std::int64_t valid_targets(std::int64_t step, std::int64_t sequence) const = 0;
};

/// Global index k = samples consumed before `first_step` + (step - first_step) x batch size +
/// sequence, in the sample order: a job resumed with another batch size skips and repeats nothing.
class TrainingTokens final : public TokenSource {
  public:
    TrainingTokens(io::TokenDataset const& data, io::SampleOrder const& order,
                   std::int64_t batch_size, std::int64_t first_step, std::int64_t samples_consumed)
        : data_{data}, order_{order}, batch_size_{batch_size}, first_step_{first_step},
          samples_consumed_{samples_consumed} {}

    void read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const override {
        data_.read(sample(step, sequence), inputs, targets);
    }
    std::int64_t valid_targets(std::int64_t step, std::int64_t sequence) const override {
        return data_.valid_targets(sample(step, sequence));
    }

  private:
    std::int64_t sample(std::int64_t step, std::int64_t sequence) const {
        return order_.sample(samples_consumed_ + (step - first_step_) * batch_size_ + sequence);
    }

    io::TokenDataset const& data_;
    io::SampleOrder const& order_;
    std::int64_t batch_size_;
    std::int64_t first_step_;
    std::int64_t samples_consumed_;
};

/// The samples of a validation set one after the other; `step` counts batches. Sequences behind the
/// last sample are padding: token 0, all targets masked.
class ValidationTokens final : public TokenSource {
  public:
    ValidationTokens(io::TokenDataset const& data, std::int64_t batch_size)
        : data_{data}, batch_size_{batch_size} {}

    void read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const override;
    std::int64_t valid_targets(std::int64_t step, std::int64_t sequence) const override;
    std::int64_t batches() const;

  private:
    io::TokenDataset const& data_;
    std::int64_t batch_size_;
};

/// Windows of `context` tokens that end at every token in turn, with only the last target counted:
/// the loss of a model that sees no more than `context` tokens.
class ContextTokens final : public TokenSource {
  public:
    ContextTokens(io::TokenDataset const& data, std::int64_t context, std::int64_t batch_size);

    void read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const override;
    std::int64_t valid_targets(std::int64_t step, std::int64_t sequence) const override;
    std::int64_t batches() const;

  private:
    std::int64_t windows() const;

    io::TokenDataset const& data_; ///< of samples as long as possible
    std::int64_t context_;
    std::int64_t batch_size_;
};

} // namespace evener::runtime
