// SPDX-License-Identifier: Apache-2.0
#pragma once

// One optimizer step over `elements` float32 elements of a shard, in place. `weights` (compute
// type) receives the new parameters rounded to it. With g = grad * grad_scale:
//   AdamW (Loshchilov and Hutter 2019):  m = b1 m + (1 - b1) g,  v = b2 v + (1 - b2) g^2,
//     p -= lr * (m / correction1 / (sqrt(v / correction2) + epsilon) + decay * p)
//   SGD:  p -= lr * (g + decay * p)

#include "kernels/types.hpp"

namespace evener::kernels {

struct OptimizerShape {
    std::int64_t elements = 0;
    Element weights = Element::float32;
};

/// Read when the operation runs.
struct OptimizerScalars {
    float learning_rate = 0;
    float beta1 = 0;
    float beta2 = 0;
    float epsilon = 0;
    float decay = 0;
    float grad_scale = 1;
    float correction1 = 1; ///< 1 - beta1^step
    float correction2 = 1; ///< 1 - beta2^step
};

/// scalars: one OptimizerScalars. weights may be null (not written).
struct AdamwOperand {
    enum : int { parameters, moment1, moment2, gradients, weights, scalars, count };
};
struct SgdOperand {
    enum : int { parameters, gradients, weights, scalars, count };
};

} // namespace evener::kernels
