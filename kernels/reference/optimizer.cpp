// SPDX-License-Identifier: Apache-2.0

// One step of AdamW or SGD, element by element.

#include "kernels/reference/operations.hpp"

#include <cmath>

namespace evener::kernels::reference {

template <class W>
void adamw(OptimizerShape const& shape, float* parameters, float* moment1, float* moment2,
           float const* gradients, W* weights, OptimizerScalars const& scalars) {
    double const b1 = scalars.beta1;
    double const b2 = scalars.beta2;
    for (std::int64_t i = 0; i < shape.elements; ++i) {
        double const g = load(gradients[i]) * scalars.grad_scale;
        double const m = b1 * moment1[i] + (1 - b1) * g;
        double const v = b2 * moment2[i] + (1 - b2) * g * g;
        double const p = parameters[i];
        double const step =
            m / scalars.correction1 / (std::sqrt(v / scalars.correction2) + scalars.epsilon);
        moment1[i] = static_cast<float>(m);
        moment2[i] = static_cast<float>(v);
        parameters[i] = static_cast<float>(p - scalars.learning_rate * (step + scalars.decay * p));
        if (weights != nullptr)
            weights[i] = round_to<W>(parameters[i]);
    }
}

template <class W>
void sgd(OptimizerShape const& shape, float* parameters, float const* gradients, W* weights,
         OptimizerScalars const& scalars) {
    for (std::int64_t i = 0; i < shape.elements; ++i) {
        double const g = load(gradients[i]) * scalars.grad_scale;
        double const p = parameters[i];
        parameters[i] = static_cast<float>(p - scalars.learning_rate * (g + scalars.decay * p));
        if (weights != nullptr)
            weights[i] = round_to<W>(parameters[i]);
    }
}

template void adamw(OptimizerShape const&, float*, float*, float*, float const*, float*,
                    OptimizerScalars const&);
template void adamw(OptimizerShape const&, float*, float*, float*, float const*, BFloat16*,
                    OptimizerScalars const&);
template void sgd(OptimizerShape const&, float*, float const*, float*, OptimizerScalars const&);
template void sgd(OptimizerShape const&, float*, float const*, BFloat16*, OptimizerScalars const&);

} // namespace evener::kernels::reference
