// SPDX-License-Identifier: Apache-2.0
#pragma once

// Root-mean-square normalization (Zhang and Sennrich 2019) of each row x[r, :] of width `cols`:
//   rstd[r] = 1 / sqrt(mean(x[r, :]^2) + epsilon),   y[r, c] = x[r, c] * rstd[r] * weight[c]
// Backward, with g[r, c] = dy[r, c] * weight[c] and xh = x * rstd:
//   dx[r, c] = rstd[r] * (g[r, c] - xh[r, c] * mean(g[r, :] * xh[r, :])) + residual[r, c]
//   dweight[c] += sum over r of dy[r, c] * xh[r, c]

#include "kernels/types.hpp"

namespace evener::kernels {

struct RmsNormShape {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    Element type =
        Element::float32; ///< of x, y, dy, dx, weight, residual; rstd and dweight float32
    float epsilon = 1e-5f;
    bool rstd_given = false; ///< forward only: rstd is read instead of computed and written
};

struct RmsNormOperand { // forward
    enum : int { x, weight, y, rstd, count };
};
struct RmsNormBackwardOperand { // residual: T, may be null, may be dx itself
    enum : int { x, weight, rstd, dy, residual, dx, count };
};
struct RmsNormWeightGradientOperand {
    enum : int { x, rstd, dy, dweight, count };
};

} // namespace evener::kernels
