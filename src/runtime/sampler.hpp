// SPDX-License-Identifier: Apache-2.0
#pragma once

// Text generation: one evaluation pass per token over the last `sequence_length` tokens, on one
// rank or through the stages of several.

#include "comm/mpi_session.hpp"
#include "runtime/session.hpp"

#include <functional>
#include <vector>

namespace evener::runtime {

struct SamplerOptions {
    double temperature = 1; ///< 0 = always the likeliest token
    std::uint64_t seed = 1;
};

class Sampler {
  public:
    /// The session's plan has a batch of one sequence and HeadOutput::logits.
    Sampler(comm::MpiSession const& mpi, Session& session, SamplerOptions const& options);

    /// Collective. Continues `tokens` (not empty) by `count` tokens and calls `next` with each, on
    /// every rank.
    void generate(std::vector<std::int32_t> tokens, std::int64_t count,
                  std::function<void(std::int32_t)> const& next);

  private:
    std::int32_t choose(std::int64_t index) const;

    comm::MpiSession const& mpi_;
    Session& session_;
    SamplerOptions options_;
    int head_rank_ = 0;
};

} // namespace evener::runtime
