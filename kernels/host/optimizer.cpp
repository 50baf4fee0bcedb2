// SPDX-License-Identifier: Apache-2.0

// One step of AdamW or SGD: a stream over the shard's arrays.

#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"

namespace evener::kernels::host {
OperationPtr make_adamw(OptimizerShape const& shape, Context const& context) {
    using O = AdamwOperand;
    return with_type(shape.weights, [&]<class W>(W) {
        return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
            auto const k = *in.at<OptimizerScalars>(O::scalars);
            auto const* const gradients = in.at<float>(O::gradients);
            auto* const parameters = in.at<float>(O::parameters);
            auto* const moment1 = in.at<float>(O::moment1);
            auto* const moment2 = in.at<float>(O::moment2);
            auto* const weights = in.at<W>(O::weights);
            float const unbias1 = 1 / k.correction1;
            float const unbias2 = 1 / k.correction2;
            over_ranges(threads, s.elements, element_grain, [&](auto begin, auto end) {
                over(begin, end, [&](auto i, auto part) {
                    Floats const g = load(gradients + i, part) * k.grad_scale;
                    Floats const m = load(moment1 + i, part) * k.beta1 + g * (1 - k.beta1);
                    Floats const v = load(moment2 + i, part) * k.beta2 + g * g * (1 - k.beta2);
                    Floats const p = load(parameters + i, part);
                    Floats const root = square_root(v * unbias2);
                    Floats const step = m * unbias1 * reciprocal(root + k.epsilon);
                    Floats const next = p - k.learning_rate * (step + k.decay * p);
                    store(moment1 + i, m, part);
                    store(moment2 + i, v, part);
                    store(parameters + i, next, part);
                    if (weights != nullptr)
                        store(weights + i, next, part);
                });
            });
        });
    });
}

OperationPtr make_sgd(OptimizerShape const& shape, Context const& context) {
    using O = SgdOperand;
    return with_type(shape.weights, [&]<class W>(W) {
        return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
            auto const k = *in.at<OptimizerScalars>(O::scalars);
            auto const* const gradients = in.at<float>(O::gradients);
            auto* const parameters = in.at<float>(O::parameters);
            auto* const weights = in.at<W>(O::weights);
            over_ranges(threads, s.elements, element_grain, [&](auto begin, auto end) {
                over(begin, end, [&](auto i, auto part) {
                    Floats const g = load(gradients + i, part) * k.grad_scale;
                    Floats const p = load(parameters + i, part);
                    Floats const next = p - k.learning_rate * (g + k.decay * p);
                    store(parameters + i, next, part);
                    if (weights != nullptr)
                        store(weights + i, next, part);
                });
            });
        });
    });
}

} // namespace evener::kernels::host
