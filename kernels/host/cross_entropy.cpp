// SPDX-License-Identifier: Apache-2.0

// Softmax cross-entropy: rows over threads; a row stays in the cache for its three passes (largest
// logit, sum of exponentials, gradient).

#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"

#include <cmath>
#include <limits>

namespace evener::kernels::host {
namespace {

/// log of the sum of exp(row[c]).
float log_sum_exp(float const* row, std::int64_t cols) {
    Floats tops = broadcast(-std::numeric_limits<float>::infinity());
    float top = -std::numeric_limits<float>::infinity();
    over(0, cols, [&](auto c, auto part) {
        if constexpr (std::is_same_v<decltype(part), Whole>)
            tops = max(tops, load(row + c));
        else
            for (std::int64_t i = 0; i < part.count; ++i)
                top = std::max(top, row[c + i]);
    });
    top = std::max(top, max(tops));
    float const total = sum_over(cols, [&](auto c, auto part) {
        Floats const value = exp(load(row + c, part) - top);
        if constexpr (std::is_same_v<decltype(part), Part>) {
            Floats kept = {};
            std::memcpy(&kept, &value, static_cast<std::size_t>(part.count) * sizeof(float));
            return kept;
        } else {
            return value;
        }
    });
    return top + std::log(total);
}

/// d[c] = exp(row[c] - lse) * scale; then the target's hit is taken off.
template <class T>
void write_gradient(float const* row, std::int64_t cols, float lse, float scale,
                    std::int32_t target, T* d) {
    float const at_target = row[target]; // read before d, which may be row, is written
    over(0, cols,
         [&](auto c, auto part) { store(d + c, exp(load(row + c, part) - lse) * scale, part); });
    float const p = std::exp(at_target - lse);
    if constexpr (std::is_same_v<T, float>)
        d[target] = (p - 1) * scale;
    else
        d[target] = to_bfloat16((p - 1) * scale);
}

} // namespace

OperationPtr make_cross_entropy(CrossEntropyShape const& shape, Context const& context) {
    using O = CrossEntropyOperand;
    return with_type(shape.type, [&]<class T>(T) {
        return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
            auto const* const targets = in.at<std::int32_t>(O::targets);
            float const scale = s.gradient ? *in.at<float>(O::scale) : 0;
            over_ranges(threads, s.rows, row_grain(s.cols), [&](auto begin, auto end) {
                for (std::int64_t r = begin; r < end; ++r) {
                    float const* const row = in.at<float>(O::logits) + r * s.cols;
                    T* const d = s.gradient ? in.at<T>(O::dlogits) + r * s.cols : nullptr;
                    float& loss = in.at<float>(O::loss)[r];
                    if (targets[r] < 0) {
                        loss = 0;
                        if (d != nullptr)
                            std::fill(d, d + s.cols, T{});
                        continue;
                    }
                    float const lse = log_sum_exp(row, s.cols);
                    loss = lse - row[targets[r]];
                    if (d != nullptr)
                        write_gradient(row, s.cols, lse, scale, targets[r], d);
                }
            });
        });
    });
}

} // namespace evener::kernels::host
