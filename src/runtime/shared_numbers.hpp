// SPDX-License-Identifier: Apache-2.0
#pragma once

// The few numbers of a pass that operations read and write outside the arena, in memory that both
// the host and the device see. StepState holds the host's side of them.

#include "runtime/step_state.hpp"

namespace evener::runtime {

class SharedNumbers {
  public:
    /// At memory of that size, aligned to 64 bytes, which it fills with zeros and does not own.
    SharedNumbers(std::byte* memory, std::size_t sequences, std::size_t squares);
    static std::int64_t bytes(std::size_t sequences, std::size_t squares);

    float* loss_scale() const { return at<float>(loss_scale_); }
    kernels::OptimizerScalars* decayed() const { return at<kernels::OptimizerScalars>(decayed_); }
    kernels::OptimizerScalars* not_decayed() const {
        return at<kernels::OptimizerScalars>(not_decayed_);
    }
    double* sequence_losses() const { return at<double>(losses_); }
    double* squares() const { return at<double>(squares_); }

    /// Before operations that read: loss scale and the optimizer's scalars.
    void give(StepState const& state) const;
    /// After operations that wrote: losses and squares.
    void take(StepState& state) const;

  private:
    template <class T>
    T* at(std::int64_t offset) const {
        return reinterpret_cast<T*>(memory_ + offset);
    }

    std::int64_t loss_scale_ = 0;
    std::int64_t decayed_ = 0;
    std::int64_t not_decayed_ = 0;
    std::int64_t losses_ = 0;
    std::int64_t squares_ = 0;
    std::size_t sequence_count_ = 0;
    std::size_t square_count_ = 0;
    std::byte* memory_;
};

} // namespace evener::runtime
