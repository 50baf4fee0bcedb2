// SPDX-License-Identifier: Apache-2.0

// Three loops, one dot product for each element of dst.

#include "kernels/reference/operations.hpp"

namespace evener::kernels::reference {

template <class T, class D>
void matmul(MatmulShape const& shape, T const* a, T const* b, T const* bias, T const* residual,
            D* dst) {
    for (std::int64_t i = 0; i < shape.m; ++i) {
        for (std::int64_t j = 0; j < shape.n; ++j) {
            double sum = 0;
            for (std::int64_t l = 0; l < shape.k; ++l) {
                T const x = shape.transpose_a ? a[l * shape.m + i] : a[i * shape.k + l];
                T const y = shape.transpose_b ? b[j * shape.k + l] : b[l * shape.n + j];
                sum += load(x) * load(y);
            }
            std::int64_t const at = i * shape.n + j;
            if (shape.bias)
                sum += load(bias[j]);
            if (shape.residual)
                sum += load(residual[at]);
            if (shape.accumulate)
                sum += load(dst[at]);
            dst[at] = round_to<D>(sum);
        }
    }
}

template void matmul(MatmulShape const&, float const*, float const*, float const*, float const*,
                     float*);
template void matmul(MatmulShape const&, BFloat16 const*, BFloat16 const*, BFloat16 const*,
                     BFloat16 const*, float*);
template void matmul(MatmulShape const&, BFloat16 const*, BFloat16 const*, BFloat16 const*,
                     BFloat16 const*, BFloat16*);
template void matmul(MatmulShape const&, double const*, double const*, double const*, double const*,
                     double*);

} // namespace evener::kernels::reference
