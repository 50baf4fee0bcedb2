// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "job/job.hpp"

namespace evener::runtime {

/// Rate of step `step` (counted from 0): linear warm-up to the full rate over warmup_steps, then
/// constant, or a cosine or straight line down to min_learning_rate at decay_steps, which it keeps.
double learning_rate(job::Optimizer const& optimizer, std::int64_t step);

} // namespace evener::runtime
