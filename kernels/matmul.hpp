// SPDX-License-Identifier: Apache-2.0
#pragma once

// dst[m, n] (+)= op(a)[m, k] * op(b)[k, n] + bias[n] + residual[m, n]

#include "kernels/types.hpp"

namespace evener::kernels {

struct MatmulShape {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    bool transpose_a = false;       ///< a is stored [k, m] (row-major), else [m, k]
    bool transpose_b = false;       ///< b is stored [n, k] (row-major), else [k, n]
    bool accumulate = false;        ///< dst += instead of dst =; excludes bias and residual
    bool bias = false;              ///< the bias operand is there
    bool residual = false;          ///< the residual operand is there; it may be dst itself
    Element src = Element::float32; ///< of a, b, bias and residual
    Element dst = Element::float32; ///< of dst: src, or float32
};

/// k = 0: the product is zero (dst = bias + residual, or unchanged when accumulating).
struct MatmulOperand {
    enum : int { a, b, bias, residual, dst, count };
};

} // namespace evener::kernels
