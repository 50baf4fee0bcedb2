// SPDX-License-Identifier: Apache-2.0

// Softmax cross-entropy and its gradient; a row is read whole before its gradient is written, so
// that dlogits may be logits.

#include "kernels/reference/operations.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace evener::kernels::reference {

template <class T>
void cross_entropy(CrossEntropyShape const& shape, Wide<T> const* logits,
                   std::int32_t const* targets, float const* scale, Wide<T>* loss, T* dlogits) {
    for (std::int64_t r = 0; r < shape.rows; ++r) {
        Wide<T> const* const row = logits + r * shape.cols;
        std::int64_t const target = targets[r];
        double lse = 0;
        if (target >= 0) {
            double top = -std::numeric_limits<double>::infinity();
            for (std::int64_t c = 0; c < shape.cols; ++c)
                top = std::max(top, load(row[c]));
            double total = 0;
            for (std::int64_t c = 0; c < shape.cols; ++c)
                total += std::exp(load(row[c]) - top);
            lse = top + std::log(total);
        }
        loss[r] = target >= 0 ? static_cast<Wide<T>>(lse - load(row[target])) : Wide<T>{0};
        for (std::int64_t c = 0; shape.gradient && c < shape.cols; ++c) {
            double const p = target >= 0 ? std::exp(load(row[c]) - lse) : 0;
            double const hit = c == target ? 1 : 0;
            dlogits[r * shape.cols + c] = round_to<T>((p - hit) * *scale);
        }
    }
}

template void cross_entropy(CrossEntropyShape const&, float const*, std::int32_t const*,
                            float const*, float*, float*);
template void cross_entropy(CrossEntropyShape const&, float const*, std::int32_t const*,
                            float const*, float*, BFloat16*);
template void cross_entropy(CrossEntropyShape const&, double const*, std::int32_t const*,
                            float const*, double*, double*);

} // namespace evener::kernels::reference
