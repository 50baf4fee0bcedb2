// SPDX-License-Identifier: Apache-2.0

// A pass over dst, for the few products whose bias or residual has another type than dst, and for
// those without a product at all. Bound by memory: at most 8 + t bytes and 2 operations per element.

#include "kernels/cuda/product_terms.hpp"
#include "kernels/cuda/vector_loop.cuh"

namespace evener::kernels::cuda {
namespace {

/// bias, residual: null where not there; residual may be dst itself.
template <class T, class D>
struct AddTerms {
    std::int64_t cols;
    bool product;
    T const* bias;
    T const* residual;
    D* dst;

    __device__ __forceinline__ void begin() {}

    template <class A>
    __device__ __forceinline__ void at(std::int64_t i) const {
        float sum = product ? to_float(dst[i]) : 0.0f;
        if (bias != nullptr)
            sum += to_float(bias[i % cols]);
        if (residual != nullptr)
            sum += to_float(residual[i]);
        dst[i] = round_to<D>(sum);
    }
};

} // namespace

void add_terms(MatmulShape const& s, Product product, Operands in, Context const& context,
               cudaStream_t stream) {
    using O = MatmulOperand;
    with_element(s.src, [&]<class T>(T) {
        with_element(s.dst, [&]<class D>(D) {
            AddTerms<T, D> const body{
                s.n, product == Product::in_dst, s.bias ? in.at<T>(O::bias) : nullptr,
                s.residual ? in.at<T>(O::residual) : nullptr, in.at<D>(O::dst)};
            over_vector<1>(s.m * s.n, false, body, context, stream);
        });
    });
}

} // namespace evener::kernels::cuda
