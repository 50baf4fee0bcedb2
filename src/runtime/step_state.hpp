// SPDX-License-Identifier: Apache-2.0
#pragma once

// The few numbers of a pass that live outside the arena: they are read when an operation runs. And
// the reduction of what ranks contribute: losses per sequence, valid tokens, squares of gradients.

#include "kernels/optimizer.hpp"
#include "program/buckets.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace evener::runtime {

/// The pass's numbers, the same on all ranks.
struct StepScalars {
    double loss_sum = 0;              ///< over the valid tokens of the batch
    std::int64_t tokens = 0;          ///< valid tokens of the batch
    std::int64_t next_tokens = 0;     ///< of the next step's batch
    double squared_gradient_norm = 0; ///< of the gradient of the mean loss
    std::int64_t requests = 0;        ///< what any rank asked for, Request bits
};

/// What a rank may ask all others to do after the step.
enum class Request : std::int64_t {
    exchange_schedule = 1,
    stop = 2,         ///< save and end early
    save_running = 4, ///< a thread of a save is at work
    save = 8,         ///< the time between two saves is up
};
constexpr bool asks_for(std::int64_t requests, Request request) {
    return (requests & static_cast<std::int64_t>(request)) != 0;
}

/// Sum of squares of a slice of a reduced gradient.
struct SliceSquare {
    core::ParameterId parameter;
    std::int64_t first_row = 0;
    double value = 0;
};

struct StepState {
    // in
    std::int64_t step = 0;      ///< of the token source
    float loss_scale = 1;       ///< 1 / valid tokens of the batch
    double clip_norm = 0;       ///< 0 = off
    bool skip_nonfinite = true; ///< UpdateParameters does nothing when something is not finite
    kernels::OptimizerScalars decayed;
    kernels::OptimizerScalars not_decayed; ///< the same without weight decay
    std::int64_t requests = 0;             ///< of this rank, Request bits
    /// More of them, asked when the scalars are reduced near the end of the pass, maybe by another
    /// thread; null: none.
    std::function<std::int64_t()> late_requests;

    // per rank, filled by the instructions
    std::vector<double> sequence_losses;     ///< by sequence of the batch
    std::vector<core::Range> head_sequences; ///< that this rank's heads see; fixed by the program
    std::vector<SliceSquare> squares;
    std::int64_t tokens = 0;
    std::int64_t next_tokens = 0;

    // out
    StepScalars scalars;
};

/// Whether loss and gradient of the pass are finite.
bool is_finite(StepScalars const& scalars);

/// Factor on the gradients: clip_norm / norm where the norm is larger (Pascanu et al. 2013).
float clip_factor(StepScalars const& scalars, double clip_norm);

std::vector<std::byte> contribution(StepState const& state);
/// Adds the contributions in canonical order (sequence; parameter, row), whatever ranks they come
/// from.
std::vector<std::byte> combine(std::vector<std::vector<std::byte>> const& contributions);
StepScalars decode_scalars(std::span<std::byte const> bytes);

} // namespace evener::runtime
