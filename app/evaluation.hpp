// SPDX-License-Identifier: Apache-2.0
#pragma once

// A checkpoint made ready to compute losses or logits: engine, default plan over the ranks at hand,
// session with the weights loaded.

#include "app/engine.hpp"

#include <memory>
#include <string>

namespace evener::app {

struct EvaluationInput {
    std::string run;                  ///< run folder or checkpoint
    std::int64_t sequence_length = 0; ///< 0 = the job's
    std::int64_t batch_size = 1;      ///< 0 = about 4096 tokens
    runtime::HeadOutput head = runtime::HeadOutput::losses;
};

/// Collective. Members are declared in the order in which they depend on each other.
struct Evaluation {
    Evaluation(comm::MpiSession const& mpi, EvaluationInput const& input);

    std::string folder; ///< of the checkpoint
    job::Job job;       ///< that made it
    std::int64_t step = 0;
    std::unique_ptr<model::Model> model;
    Engine engine;
    std::unique_ptr<comm::Transport> transport;
    std::unique_ptr<runtime::Session> session;
};

} // namespace evener::app
