// SPDX-License-Identifier: Apache-2.0
#include "runtime/learning_rate.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace evener::runtime {

double learning_rate(job::Optimizer const& optimizer, std::int64_t step) {
    double const full = optimizer.learning_rate;
    if (step < optimizer.warmup_steps)
        return full * static_cast<double>(step + 1) / static_cast<double>(optimizer.warmup_steps);
    if (optimizer.schedule == job::Decay::constant)
        return full;
    double const length = static_cast<double>(
        std::max<std::int64_t>(1, optimizer.decay_steps - optimizer.warmup_steps));
    double const done =
        std::clamp(static_cast<double>(step - optimizer.warmup_steps) / length, 0.0, 1.0);
    double const rest = optimizer.schedule == job::Decay::linear
                            ? 1.0 - done
                            : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
    return optimizer.min_learning_rate + (full - optimizer.min_learning_rate) * rest;
}

} // namespace evener::runtime
