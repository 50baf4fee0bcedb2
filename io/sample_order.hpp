// SPDX-License-Identifier: Apache-2.0
#pragma once

// The order in which samples are trained on, as a pure function: global index k is place k mod N of
// epoch k / N, and each epoch is its own permutation of [0, N). It depends on (N, seed) only, not
// on the plan, the batch size or the length of the run, and the state to save is one integer, k.

#include "core/philox.hpp"

#include <cstdint>

namespace evener::io {

class SampleOrder {
  public:
    /// `samples` from 1 to 2^62. Without `shuffle` every epoch is 0, 1, ..., N - 1.
    SampleOrder(std::int64_t samples, std::uint64_t seed, bool shuffle = true);

    /// The sample at global index k >= 0.
    std::int64_t sample(std::int64_t k) const;
    std::int64_t samples() const noexcept { return samples_; }

  private:
    std::uint64_t permute(std::uint64_t place, std::uint64_t epoch) const;

    std::int64_t samples_;
    core::PhiloxKey key_;
    bool shuffle_;
    int half_bits_; // the permutation works on numbers of 2 * half_bits_ bits
};

} // namespace evener::io
