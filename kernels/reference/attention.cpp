// SPDX-License-Identifier: Apache-2.0

// Causal grouped-query attention, one query row at a time: scores, softmax, weighted sum of values.

#include "kernels/reference/operations.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace evener::kernels::reference {
namespace {

/// Where the heads of a fused projection are. Pointers of row r are base + r * cols.
struct Layout {
    explicit Layout(AttentionShape const& shape)
        : size{shape.head_size}, group{shape.key_heads > 0 ? shape.query_heads / shape.key_heads
                                                           : 0},
          key_begin{shape.query_heads * size}, value_begin{key_begin + shape.key_heads * size},
          cols{value_begin + shape.key_heads * size} {}

    std::int64_t query(std::int64_t head) const { return head * size; }
    std::int64_t key(std::int64_t head) const { return key_begin + head / group * size; }
    std::int64_t value(std::int64_t head) const { return value_begin + head / group * size; }

    std::int64_t size, group, key_begin, value_begin, cols;
};

template <class A, class B>
double dot(A const* a, B const* b, std::int64_t size) {
    double sum = 0;
    for (std::int64_t c = 0; c < size; ++c)
        sum += load(a[c]) * load(b[c]);
    return sum;
}

} // namespace

template <class T>
void attention(AttentionShape const& shape, T const* qkv, T* o, Wide<T>* lse) {
    Layout const at{shape};
    std::int64_t const length = shape.sequence_length;
    double const scale = 1 / std::sqrt(static_cast<double>(at.size));
    std::vector<double> p(static_cast<std::size_t>(length));
    std::vector<double> sum(static_cast<std::size_t>(at.size));
    for (std::int64_t s = 0; s < shape.sequences; ++s) {
        T const* const rows = qkv + s * length * at.cols;
        for (std::int64_t h = 0; h < shape.query_heads; ++h) {
            for (std::int64_t i = 0; i < length; ++i) {
                T const* const q = rows + i * at.cols + at.query(h);
                double top = -std::numeric_limits<double>::infinity();
                for (std::int64_t j = 0; j <= i; ++j) {
                    double const score =
                        at.size > 0 ? dot(q, rows + j * at.cols + at.key(h), at.size) * scale : 0;
                    p[j] = score;
                    top = std::max(top, score);
                }
                double total = 0;
                for (std::int64_t j = 0; j <= i; ++j)
                    total += p[j] = std::exp(p[j] - top);
                std::fill(sum.begin(), sum.end(), 0.0);
                for (std::int64_t j = 0; j <= i; ++j)
                    for (std::int64_t c = 0; c < at.size; ++c)
                        sum[c] += p[j] * load(rows[j * at.cols + at.value(h) + c]);
                std::int64_t const row = s * length + i;
                for (std::int64_t c = 0; c < at.size; ++c)
                    o[(row * shape.query_heads + h) * at.size + c] = round_to<T>(sum[c] / total);
                lse[row * shape.query_heads + h] = static_cast<Wide<T>>(top + std::log(total));
            }
        }
    }
}

template <class T>
void attention_backward(AttentionShape const& shape, T const* qkv, T const* o, Wide<T> const* lse,
                        T const* d_o, T* dqkv) {
    Layout const at{shape};
    std::int64_t const length = shape.sequence_length;
    double const scale = 1 / std::sqrt(static_cast<double>(at.size));
    std::vector<double> gradient(static_cast<std::size_t>(length * at.cols)); // of one sequence
    for (std::int64_t s = 0; s < shape.sequences; ++s) {
        T const* const rows = qkv + s * length * at.cols;
        std::fill(gradient.begin(), gradient.end(), 0.0);
        for (std::int64_t h = 0; h < shape.query_heads; ++h) {
            for (std::int64_t i = 0; i < length; ++i) {
                std::int64_t const row = (s * length + i) * shape.query_heads + h;
                T const* const out = o + row * at.size;
                T const* const d_out = d_o + row * at.size;
                double const delta = dot(out, d_out, at.size);
                T const* const q = rows + i * at.cols + at.query(h);
                double* const dq = gradient.data() + i * at.cols + at.query(h);
                for (std::int64_t j = 0; j <= i && at.size > 0; ++j) {
                    T const* const k = rows + j * at.cols + at.key(h);
                    T const* const v = rows + j * at.cols + at.value(h);
                    double* const dk = gradient.data() + j * at.cols + at.key(h);
                    double* const dv = gradient.data() + j * at.cols + at.value(h);
                    double const p = std::exp(dot(q, k, at.size) * scale - lse[row]);
                    double const ds = p * (dot(d_out, v, at.size) - delta) * scale;
                    for (std::int64_t c = 0; c < at.size; ++c) {
                        dq[c] += ds * load(k[c]);
                        dk[c] += ds * load(q[c]);
                        dv[c] += p * load(d_out[c]);
                    }
                }
            }
        }
        T* const out = dqkv + s * length * at.cols;
        for (std::int64_t e = 0; e < length * at.cols; ++e)
            out[e] = round_to<T>(gradient[e]);
    }
}

template void attention(AttentionShape const&, float const*, float*, float*);
template void attention(AttentionShape const&, BFloat16 const*, BFloat16*, float*);
template void attention(AttentionShape const&, double const*, double*, double*);
template void attention_backward(AttentionShape const&, float const*, float const*, float const*,
                                 float const*, float*);
template void attention_backward(AttentionShape const&, BFloat16 const*, BFloat16 const*,
                                 float const*, BFloat16 const*, BFloat16*);
template void attention_backward(AttentionShape const&, double const*, double const*, double const*,
                                 double const*, double*);

} // namespace evener::kernels::reference
