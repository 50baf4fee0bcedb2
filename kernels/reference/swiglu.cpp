// SPDX-License-Identifier: Apache-2.0

// Gated linear unit with SiLU, element by element.

#include "kernels/reference/operations.hpp"

#include <cmath>

namespace evener::kernels::reference {
namespace {

double sigmoid(double x) {
    return 1 / (1 + std::exp(-x));
}

} // namespace

template <class T>
void swiglu(SwigluShape const& shape, T const* gate_up, T* y) {
    for (std::int64_t r = 0; r < shape.rows; ++r) {
        T const* const gate = gate_up + r * 2 * shape.cols;
        T const* const up = gate + shape.cols;
        for (std::int64_t c = 0; c < shape.cols; ++c) {
            double const g = load(gate[c]);
            y[r * shape.cols + c] = round_to<T>(g * sigmoid(g) * load(up[c]));
        }
    }
}

template <class T>
void swiglu_backward(SwigluShape const& shape, T const* gate_up, T const* dy, T* d_gate_up) {
    for (std::int64_t r = 0; r < shape.rows; ++r) {
        std::int64_t const row = r * 2 * shape.cols;
        for (std::int64_t c = 0; c < shape.cols; ++c) {
            double const g = load(gate_up[row + c]);
            double const up = load(gate_up[row + shape.cols + c]);
            double const d = load(dy[r * shape.cols + c]);
            double const s = sigmoid(g);
            d_gate_up[row + c] = round_to<T>(d * up * s * (1 + g * (1 - s)));
            d_gate_up[row + shape.cols + c] = round_to<T>(d * g * s);
        }
    }
}

template void swiglu(SwigluShape const&, float const*, float*);
template void swiglu(SwigluShape const&, BFloat16 const*, BFloat16*);
template void swiglu(SwigluShape const&, double const*, double*);
template void swiglu_backward(SwigluShape const&, float const*, float const*, float*);
template void swiglu_backward(SwigluShape const&, BFloat16 const*, BFloat16 const*, BFloat16*);
template void swiglu_backward(SwigluShape const&, double const*, double const*, double*);

} // namespace evener::kernels::reference
