// SPDX-License-Identifier: Apache-2.0

// Gated linear unit with SiLU: rows over threads.

#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"

namespace evener::kernels::host {
namespace {

/// sigmoid(x), and 1 - sigmoid(x) without cancellation.
struct Sigmoid {
    explicit Sigmoid(Floats x) {
        Floats const e = exp(-x);
        value = reciprocal(1.0f + e);
        rest = e * value;
    }
    Floats value;
    Floats rest;
};

} // namespace

OperationPtr make_swiglu(SwigluShape const& shape, Context const& context) {
    using O = SwigluOperand;
    return with_type(shape.type, [&]<class T>(T) {
        return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
            over_ranges(threads, s.rows, row_grain(s.cols), [&](auto begin, auto end) {
                for (std::int64_t r = begin; r < end; ++r) {
                    T const* const gate = in.at<T>(O::gate_up) + r * 2 * s.cols;
                    T const* const up = gate + s.cols;
                    T* const y = in.at<T>(O::y) + r * s.cols;
                    over(0, s.cols, [&](auto c, auto part) {
                        Floats const g = load(gate + c, part);
                        store(y + c, g * Sigmoid{g}.value * load(up + c, part), part);
                    });
                }
            });
        });
    });
}

OperationPtr make_swiglu_backward(SwigluShape const& shape, Context const& context) {
    using O = SwigluBackwardOperand;
    return with_type(shape.type, [&]<class T>(T) {
        return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
            over_ranges(threads, s.rows, row_grain(s.cols), [&](auto begin, auto end) {
                for (std::int64_t r = begin; r < end; ++r) {
                    T const* const gate = in.at<T>(O::gate_up) + r * 2 * s.cols;
                    T const* const up = gate + s.cols;
                    T const* const dy = in.at<T>(O::dy) + r * s.cols;
                    T* const d_gate = in.at<T>(O::d_gate_up) + r * 2 * s.cols;
                    T* const d_up = d_gate + s.cols;
                    over(0, s.cols, [&](auto c, auto part) {
                        Floats const g = load(gate + c, part);
                        Floats const u = load(up + c, part);
                        Floats const d = load(dy + c, part);
                        Sigmoid const sigmoid{g};
                        store(d_gate + c, d * u * sigmoid.value * (1.0f + g * sigmoid.rest), part);
                        store(d_up + c, d * g * sigmoid.value, part);
                    });
                }
            });
        });
    });
}

} // namespace evener::kernels::host
