// SPDX-License-Identifier: Apache-2.0
#pragma once

// Softmax cross-entropy of each row of logits (float32, [rows, cols]) and, in the same pass, its
// gradient. A target of -1 masks the row: loss 0, gradient 0.
//   loss[r] = log(sum_c exp(logits[r, c])) - logits[r, target[r]]              (float32)
//   dlogits[r, c] = (softmax(logits[r, :])[c] - [c == target[r]]) * scale      (T)

#include "kernels/types.hpp"

namespace evener::kernels {

struct CrossEntropyShape {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    bool gradient = false;           ///< dlogits and scale are there
    Element type = Element::float32; ///< of dlogits; when float32, dlogits may be logits itself
};

/// targets: int32. scale: one float32, read when the operation runs.
struct CrossEntropyOperand {
    enum : int { logits, targets, scale, loss, dlogits, count };
};

} // namespace evener::kernels
