// SPDX-License-Identifier: Apache-2.0

// One pass over a shard for AdamW or SGD: state in float32, weights out in the compute type. Bound by
// memory, with weights of t bytes:
//   AdamW   28 + t bytes and 17 operations per element (p, m, v, g in; p, m, v, weights out)
//   SGD     12 + t bytes and 5 operations per element
// At 3.35 TB/s (H100) AdamW with bfloat16 weights updates 0.11e12 parameters/s.

#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/vector_loop.cuh"

namespace evener::kernels::cuda {
namespace {

constexpr int at_once = 4; // 16 bytes of state

/// Updates parameters[i, i + A::size); W is the type of weights, which may be null.
template <class W>
struct AdamW {
    float* parameters;
    float* moment1;
    float* moment2;
    float const* gradients;
    W* weights;
    OptimizerScalars const* scalars;
    OptimizerScalars s; ///< read once: scalars may lie in the host's memory

    __device__ __forceinline__ void begin() {
        s = *scalars;
        s.correction1 = 1.0f / s.correction1;
        s.correction2 = 1.0f / s.correction2;
    }

    template <class A>
    __device__ __forceinline__ void at(std::int64_t i) const {
        float p[A::size];
        float m[A::size];
        float v[A::size];
        float g[A::size];
        load<A>(parameters + i, p);
        load<A>(moment1 + i, m);
        load<A>(moment2 + i, v);
        load<A>(gradients + i, g);
#pragma unroll
        for (int e = 0; e < A::size; ++e) {
            float const scaled = g[e] * s.grad_scale;
            m[e] = s.beta1 * m[e] + (1.0f - s.beta1) * scaled;
            v[e] = s.beta2 * v[e] + (1.0f - s.beta2) * scaled * scaled;
            float const step = m[e] * s.correction1 / (sqrtf(v[e] * s.correction2) + s.epsilon);
            p[e] -= s.learning_rate * (step + s.decay * p[e]);
        }
        store<A>(parameters + i, p);
        store<A>(moment1 + i, m);
        store<A>(moment2 + i, v);
        if (weights != nullptr)
            store<A>(weights + i, p);
    }
};

template <class W>
struct Sgd {
    float* parameters;
    float const* gradients;
    W* weights;
    OptimizerScalars const* scalars;
    OptimizerScalars s; ///< read once: scalars may lie in the host's memory

    __device__ __forceinline__ void begin() { s = *scalars; }

    template <class A>
    __device__ __forceinline__ void at(std::int64_t i) const {
        float p[A::size];
        float g[A::size];
        load<A>(parameters + i, p);
        load<A>(gradients + i, g);
#pragma unroll
        for (int e = 0; e < A::size; ++e)
            p[e] -= s.learning_rate * (g[e] * s.grad_scale + s.decay * p[e]);
        store<A>(parameters + i, p);
        if (weights != nullptr)
            store<A>(weights + i, p);
    }
};

template <class W>
bool weights_aligned(W const* weights) {
    return is_aligned(weights, at_once * static_cast<int>(sizeof(W)));
}

} // namespace

OperationPtr make_adamw(OptimizerShape const& shape, Context const& context) {
    using O = AdamwOperand;
    return with_element(shape.weights, [&]<class W>(W) {
        auto const body = [s = shape, &context](Operands in, std::byte*, cudaStream_t stream) {
            AdamW<W> const step{in.at<float>(O::parameters),
                                in.at<float>(O::moment1),
                                in.at<float>(O::moment2),
                                in.at<float>(O::gradients),
                                in.at<W>(O::weights),
                                in.at<OptimizerScalars>(O::scalars),
                                {}};
            bool const aligned = is_aligned(step.parameters, 16) && is_aligned(step.moment1, 16) &&
                                 is_aligned(step.moment2, 16) && is_aligned(step.gradients, 16) &&
                                 weights_aligned(step.weights);
            over_vector<at_once>(s.elements, aligned, step, context, stream);
        };
        return make_operation(body);
    });
}

OperationPtr make_sgd(OptimizerShape const& shape, Context const& context) {
    using O = SgdOperand;
    return with_element(shape.weights, [&]<class W>(W) {
        auto const body = [s = shape, &context](Operands in, std::byte*, cudaStream_t stream) {
            Sgd<W> const step{in.at<float>(O::parameters),
                              in.at<float>(O::gradients),
                              in.at<W>(O::weights),
                              in.at<OptimizerScalars>(O::scalars),
                              {}};
            bool const aligned = is_aligned(step.parameters, 16) &&
                                 is_aligned(step.gradients, 16) && weights_aligned(step.weights);
            over_vector<at_once>(s.elements, aligned, step, context, stream);
        };
        return make_operation(body);
    });
}

} // namespace evener::kernels::cuda
