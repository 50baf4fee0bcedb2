// SPDX-License-Identifier: Apache-2.0

// Root-mean-square normalization, row by row.

#include "kernels/reference/operations.hpp"

#include <cmath>

namespace evener::kernels::reference {

template <class T>
void rms_norm(RmsNormShape const& shape, T const* x, T const* weight, T* y, Wide<T>* rstd) {
    for (std::int64_t r = 0; r < shape.rows; ++r) {
        T const* const row = x + r * shape.cols;
        double scale = 0;
        if (shape.rstd_given) {
            scale = rstd[r];
        } else {
            double squares = 0;
            for (std::int64_t c = 0; c < shape.cols; ++c)
                squares += load(row[c]) * load(row[c]);
            double const mean = shape.cols > 0 ? squares / static_cast<double>(shape.cols) : 0;
            scale = 1 / std::sqrt(mean + shape.epsilon);
            rstd[r] = static_cast<Wide<T>>(scale);
        }
        for (std::int64_t c = 0; c < shape.cols; ++c)
            y[r * shape.cols + c] = round_to<T>(load(row[c]) * scale * load(weight[c]));
    }
}

template <class T>
void rms_norm_backward(RmsNormShape const& shape, T const* x, T const* weight, Wide<T> const* rstd,
                       T const* dy, T const* residual, T* dx) {
    for (std::int64_t r = 0; r < shape.rows; ++r) {
        std::int64_t const row = r * shape.cols;
        double const scale = rstd[r];
        double mean = 0; // of g * xh over the row
        for (std::int64_t c = 0; c < shape.cols; ++c)
            mean += load(dy[row + c]) * load(weight[c]) * load(x[row + c]) * scale;
        mean /= static_cast<double>(shape.cols);
        for (std::int64_t c = 0; c < shape.cols; ++c) {
            double const g = load(dy[row + c]) * load(weight[c]);
            double const xh = load(x[row + c]) * scale;
            double const add = residual != nullptr ? load(residual[row + c]) : 0;
            dx[row + c] = round_to<T>(scale * (g - xh * mean) + add);
        }
    }
}

template <class T>
void rms_norm_weight_gradient(RmsNormShape const& shape, T const* x, Wide<T> const* rstd,
                              T const* dy, Wide<T>* dweight) {
    for (std::int64_t c = 0; c < shape.cols; ++c) {
        double sum = dweight[c];
        for (std::int64_t r = 0; r < shape.rows; ++r)
            sum += load(dy[r * shape.cols + c]) * load(x[r * shape.cols + c]) * rstd[r];
        dweight[c] = static_cast<Wide<T>>(sum);
    }
}

template void rms_norm(RmsNormShape const&, float const*, float const*, float*, float*);
template void rms_norm(RmsNormShape const&, BFloat16 const*, BFloat16 const*, BFloat16*, float*);
template void rms_norm(RmsNormShape const&, double const*, double const*, double*, double*);
template void rms_norm_backward(RmsNormShape const&, float const*, float const*, float const*,
                                float const*, float const*, float*);
template void rms_norm_backward(RmsNormShape const&, BFloat16 const*, BFloat16 const*, float const*,
                                BFloat16 const*, BFloat16 const*, BFloat16*);
template void rms_norm_backward(RmsNormShape const&, double const*, double const*, double const*,
                                double const*, double const*, double*);
template void rms_norm_weight_gradient(RmsNormShape const&, float const*, float const*,
                                       float const*, float*);
template void rms_norm_weight_gradient(RmsNormShape const&, BFloat16 const*, float const*,
                                       BFloat16 const*, float*);
template void rms_norm_weight_gradient(RmsNormShape const&, double const*, double const*,
                                       double const*, double*);

} // namespace evener::kernels::reference
