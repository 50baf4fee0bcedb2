// SPDX-License-Identifier: Apache-2.0
#include "runtime/shared_numbers.hpp"

#include <algorithm>

namespace evener::runtime {

namespace {

/// Places `bytes` behind what is there; blocks of their own keep vector accesses aligned.
std::int64_t place(std::int64_t& end, std::size_t bytes) {
    std::int64_t const begin = end;
    end = core::round_up(end + static_cast<std::int64_t>(bytes), 64);
    return begin;
}

} // namespace

SharedNumbers::SharedNumbers(std::byte* memory, std::size_t sequences, std::size_t squares)
    : sequence_count_{sequences}, square_count_{squares}, memory_{memory} {
    std::int64_t end = 0;
    loss_scale_ = place(end, sizeof(float));
    decayed_ = place(end, sizeof(kernels::OptimizerScalars));
    not_decayed_ = place(end, sizeof(kernels::OptimizerScalars));
    losses_ = place(end, sequences * sizeof(double));
    squares_ = place(end, squares * sizeof(double));
    std::fill_n(memory_, end, std::byte{0});
}

std::int64_t SharedNumbers::bytes(std::size_t sequences, std::size_t squares) {
    std::int64_t end = 0;
    for (std::size_t const part :
         {sizeof(float), sizeof(kernels::OptimizerScalars), sizeof(kernels::OptimizerScalars),
          sequences * sizeof(double), squares * sizeof(double)})
        place(end, part);
    return end;
}

void SharedNumbers::give(StepState const& state) const {
    *loss_scale() = state.loss_scale;
    *decayed() = state.decayed;
    *not_decayed() = state.not_decayed;
}

void SharedNumbers::take(StepState& state) const {
    EVENER_EXPECT(state.sequence_losses.size() == sequence_count_ &&
                  state.squares.size() == square_count_);
    std::copy_n(sequence_losses(), sequence_count_, state.sequence_losses.begin());
    for (std::size_t i = 0; i < square_count_; ++i)
        state.squares[i].value = squares()[i];
}

} // namespace evener::runtime
