// SPDX-License-Identifier: Apache-2.0

// Softmax cross-entropy: rows over threads; a row stays in the cache for its three passes (largest
// logit, exponentials and their sum, gradient).

#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"

#include <cmath>
#include <limits>

namespace evener::kernels::host {
namespace {

float largest(float const* row, std::int64_t cols) {
    Floats tops[2] = {broadcast(-std::numeric_limits<float>::infinity()),
                      broadcast(-std::numeric_limits<float>::infinity())};
    std::int64_t c = 0;
    for (; c + 2 * lanes <= cols; c += 2 * lanes)
        for (std::int64_t u = 0; u < 2; ++u)
            tops[u] = max(tops[u], load(row + c + u * lanes));
    float top = max(max(tops[0], tops[1]));
    for (; c < cols; ++c)
        top = std::max(top, row[c]);
    return top;
}

/// Sum of exp(row[c] - top); the exponentials are kept in `kept` unless that is null.
float sum_of_exponentials(float const* row, std::int64_t cols, float top, float* kept) {
    return sum_over(cols, [&](auto c, auto part) {
        Floats value = exp(load(row + c, part) - top);
        if constexpr (std::is_same_v<decltype(part), Part>) {
            float buffer[lanes] = {}; // the other lanes add nothing
            store(buffer, value, part);
            value = load(buffer);
        }
        if (kept != nullptr)
            store(kept + c, value, part);
        return value;
    });
}

template <class T>
T narrowed(float value) {
    if constexpr (std::is_same_v<T, float>)
        return value;
    else
        return to_bfloat16(value);
}

template <class T>
class LogitRows {
  public:
    using O = CrossEntropyOperand;

    LogitRows(CrossEntropyShape const& shape, Operands in, float* exponentials)
        : s_{shape}, in_{in}, exponentials_{exponentials} {}

    void run(std::int64_t r) const {
        float const* const row = in_.at<float>(O::logits) + r * s_.cols;
        std::int32_t const target = in_.at<std::int32_t>(O::targets)[r];
        float& loss = in_.at<float>(O::loss)[r];
        if (target < 0) {
            loss = 0;
            if (s_.gradient)
                std::fill_n(in_.at<T>(O::dlogits) + r * s_.cols, s_.cols, T{});
            return;
        }
        float const top = largest(row, s_.cols);
        float const total = sum_of_exponentials(row, s_.cols, top, exponentials_);
        loss = top - row[target] + std::log(total);
        if (s_.gradient)
            write_gradient(r, target, total);
    }

  private:
    void write_gradient(std::int64_t r, std::int32_t target, float total) const {
        float const scale = *in_.at<float>(O::scale);
        float const factor = scale / total;
        T* const d = in_.at<T>(O::dlogits) + r * s_.cols;
        over(0, s_.cols, [&](auto c, auto part) {
            store(d + c, load(exponentials_ + c, part) * factor, part);
        });
        d[target] = narrowed<T>((exponentials_[target] / total - 1) * scale);
    }

    CrossEntropyShape const& s_;
    Operands in_;
    float* exponentials_; ///< of one row; null without gradient
};

} // namespace

OperationPtr make_cross_entropy(CrossEntropyShape const& shape, Context const& context) {
    return with_type(shape.type, [&]<class T>(T) {
        std::int64_t const bytes = shape.gradient ? Carver::bytes(shape.cols * 4) : 0;
        auto const body = [s = shape, bytes, threads = context.threads](Operands in,
                                                                        std::byte* workspace) {
            auto const rows = [&](auto begin, auto end, auto worker) {
                auto* const mine = reinterpret_cast<float*>(workspace + worker * bytes);
                LogitRows<T> const work{s, in, s.gradient ? mine : nullptr};
                for (std::int64_t r = begin; r < end; ++r)
                    work.run(r);
            };
            over_ranges(threads, s.rows, row_grain(s.cols), rows);
        };
        return make_operation(body, bytes * context.threads);
    });
}

} // namespace evener::kernels::host
