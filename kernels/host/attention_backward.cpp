// SPDX-License-Identifier: Apache-2.0

// Backward pass of causal attention. A task is one (sequence, key head): it goes over its query
// heads, blocks of queries and blocks of keys in order, so dk and dv are added in a fixed order.
// Transposed like the forward pass:
//   s = K Q^T,  p = exp(s - lse),  dp = V dO^T,  ds = p * (dp - delta)      [keys, queries]
//   dV += p dO,  dK += ds Q                                                  [keys, size]
//   dQ^T += K^T ds                                                           [size, queries]
// ds leaves out the factor 1 / sqrt(size), which is applied when dq and dk are written.

#include "kernels/host/attention_blocks.hpp"
#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"

namespace evener::kernels::host {
namespace {

/// One worker's part of the workspace.
template <class E>
struct BackwardBuffers {
    BackwardBuffers(AttentionLayout const& at, std::byte* begin) {
        Carver carver{begin};
        carve(at, [&]<class X>(X*& array, std::int64_t count) { array = carver.take<X>(count); });
    }

    static std::int64_t bytes(AttentionLayout const& at) {
        std::int64_t total = 0;
        BackwardBuffers nowhere;
        nowhere.carve(at, [&]<class X>(X*&, std::int64_t count) {
            total += Carver::bytes(count * static_cast<std::int64_t>(sizeof(X)));
        });
        return total;
    }

    E* keys;             ///< [padded_length, padded_size]
    E* values;           ///< [padded_length, padded_size]
    E* keys_transposed;  ///< [padded_size, padded_length + skew]
    float* d_keys;       ///< [padded_length, padded_size]
    float* d_values;     ///< [padded_length, padded_size]
    E* rows;             ///< [block, padded_size], of q
    E* d_out_rows;       ///< [block, padded_size], of do
    E* queries;          ///< panel [padded_size, block]
    E* d_out;            ///< panel [padded_size, block]
    E* rows_panel;       ///< panel [block, padded_size]
    E* d_out_rows_panel; ///< panel [block, padded_size]
    float* scores;       ///< [block, block]
    float* d_weights;    ///< dp, [block, block]
    E* weights;          ///< p, [block, block]
    E* d_scores;         ///< ds, [block, block]
    E* d_scores_panel;   ///< ds, panel [block, block]
    float* d_queries;    ///< [padded_size, block]
    float* d_query_rows; ///< [block, padded_size]
    float* lse;          ///< [block], in units of exp2
    float* delta;        ///< [block]

  private:
    BackwardBuffers() = default;

    template <class Take>
    void carve(AttentionLayout const& at, Take&& take) {
        std::int64_t const all = at.padded_length * at.padded_size;
        std::int64_t const some = block * at.padded_size;
        take(keys, all);
        take(values, all);
        take(keys_transposed, at.padded_size * (at.padded_length + skew));
        take(d_keys, all);
        take(d_values, all);
        for (E** const array :
             {&rows, &d_out_rows, &queries, &d_out, &rows_panel, &d_out_rows_panel})
            take(*array, some);
        take(scores, block * block);
        take(d_weights, block * block);
        for (E** const array : {&weights, &d_scores, &d_scores_panel})
            take(*array, block * block);
        take(d_queries, some);
        take(d_query_rows, some);
        take(lse, block);
        take(delta, block);
    }
};

/// p = exp2(scores * scale - lse), ds = p * (dp - delta); masked as in the forward pass.
template <bool diagonal, class E>
void differentiate(BackwardBuffers<E> const& b, float scale) {
    Floats lse[groups], delta[groups];
    for (std::int64_t g = 0; g < groups; ++g) {
        lse[g] = load(b.lse + g * lanes);
        delta[g] = load(b.delta + g * lanes);
    }
    for (std::int64_t j = 0; j < block; j += 2) {
#pragma GCC unroll 4
        for (std::int64_t g = 0; g < groups; ++g) {
            Floats d_score[2];
#pragma GCC unroll 2
            for (std::int64_t u = 0; u < 2; ++u) {
                std::int64_t const at = (j + u) * block + g * lanes;
                Floats p = exp2_not_above(load(b.scores + at) * scale - lse[g]);
                d_score[u] = p * (load(b.d_weights + at) - delta[g]);
                if constexpr (diagonal) {
                    Ints const mask = visible(g * lanes, j + u);
                    p = select(mask, p, Floats{});
                    d_score[u] = select(mask, d_score[u], Floats{});
                }
                store_fast(b.weights + at, p);
                store_fast(b.d_scores + at, d_score[u]);
            }
            if constexpr (!std::is_same_v<E, float>)
                store_pair(b.d_scores_panel, j, g * lanes, d_score[0], d_score[1]);
        }
    }
}

template <class T, class Engine>
class Backward {
  public:
    using E = typename Engine::Element;
    using O = AttentionBackwardOperand;

    Backward(AttentionLayout const& layout, Operands in, std::byte* workspace)
        : at_{layout}, in_{in}, b_{layout, workspace} {}

    void run(std::int64_t sequence, std::int64_t key_head) {
        [[maybe_unused]] typename Engine::Session const session;
        sequence_ = sequence;
        for (std::int64_t g = 0; g < at_.group; ++g) {
            for (std::int64_t first = 0; first < at_.length; first += block) {
                if (g == 0)
                    pack(key_head, first);
                if (g == at_.group - 1) {
                    prefetch_rows<Access::write>(gradient(first, at_.key(key_head)), at_);
                    prefetch_rows<Access::write>(gradient(first, at_.value(key_head)), at_);
                }
                go_over_keys(key_head * at_.group + g, first);
            }
        }
        write_rows(b_.d_keys, at_, at_.scale, gradient(0, at_.key(key_head)));
        write_rows(b_.d_values, at_, 1, gradient(0, at_.value(key_head)));
    }

  private:
    HeadRows<T const> projection(std::int64_t first, std::int64_t col) const {
        return {in_.at<T>(O::qkv) + (sequence_ * at_.length + first) * at_.cols + col, at_.cols,
                at_.length - first};
    }
    HeadRows<T> gradient(std::int64_t first, std::int64_t col) const {
        return {in_.at<T>(O::dqkv) + (sequence_ * at_.length + first) * at_.cols + col, at_.cols,
                at_.length - first};
    }
    HeadRows<T const> output(int operand, std::int64_t first, std::int64_t head) const {
        return {in_.at<T>(operand) + (sequence_ * at_.length + first) * at_.out_cols +
                    head * at_.size,
                at_.out_cols, at_.length - first};
    }

    /// Keys and values j .. j + block, just before the first queries that see them; meanwhile the
    /// next ones are on their way into the cache.
    void pack(std::int64_t key_head, std::int64_t j) {
        std::int64_t const at = j * at_.padded_size;
        std::fill_n(b_.d_keys + at, block * at_.padded_size, 0.0f);
        std::fill_n(b_.d_values + at, block * at_.padded_size, 0.0f);
        copy_rows(projection(j, at_.key(key_head)), at_, block, b_.keys + at);
        copy_rows(projection(j, at_.value(key_head)), at_, block, b_.values + at);
        transpose_rows(b_.keys + at, at_.padded_size, b_.keys_transposed + j,
                       at_.padded_length + skew);
        prefetch_rows<Access::read>(projection(j + block, at_.key(key_head)), at_);
        prefetch_rows<Access::read>(projection(j + block, at_.value(key_head)), at_);
    }

    /// lse and delta of a block of queries; those beyond the sequence get 0 and meet only zeros.
    void load_statistics(std::int64_t head, std::int64_t first) {
        auto const o = output(O::o, first, head);
        auto const d_o = output(O::d_o, first, head);
        float const* const lse =
            in_.at<float>(O::lse) + (sequence_ * at_.length + first) * at_.query_heads + head;
        for (std::int64_t i = 0; i < block; ++i) {
            bool const exists = i < o.rows;
            b_.lse[i] = exists ? lse[i * at_.query_heads] * 1.44269504f : 0;
            b_.delta[i] = !exists ? 0 : sum_over(at_.size, [&](auto c, auto part) {
                return load(o.first + i * o.stride + c, part) *
                       load(d_o.first + i * d_o.stride + c, part);
            });
        }
    }

    void go_over_keys(std::int64_t head, std::int64_t first) {
        std::int64_t const size = at_.padded_size;
        copy_rows(projection(first, at_.query(head)), at_, block, b_.rows);
        copy_rows(output(O::d_o, first, head), at_, block, b_.d_out_rows);
        transposed_panel(b_.rows, size, b_.queries);
        transposed_panel(b_.d_out_rows, size, b_.d_out);
        E const* const query_rows = row_panel(b_.rows, size, b_.rows_panel);
        E const* const d_out_rows = row_panel(b_.d_out_rows, size, b_.d_out_rows_panel);
        load_statistics(head, first);
        prefetch_rows<Access::read>(projection(first + block, at_.query(head)), at_);
        prefetch_rows<Access::read>(output(O::o, first + block, head), at_);
        prefetch_rows<Access::read>(output(O::d_o, first + block, head), at_);
        prefetch_rows<Access::write>(gradient(first, at_.query(head)), at_);

        float const scale = at_.scale * 1.44269504f; // of exp2
        for (std::int64_t j = 0; j <= first; j += block) {
            std::int64_t const keys = j * size;
            Engine::multiply({block, block, size}, b_.keys + keys, size, b_.queries, b_.scores,
                             Into::overwrite);
            Engine::multiply({block, block, size}, b_.values + keys, size, b_.d_out, b_.d_weights,
                             Into::overwrite);
            if (j == first)
                differentiate<true>(b_, scale);
            else
                differentiate<false>(b_, scale);
            Engine::multiply({block, size, block}, b_.weights, block, d_out_rows,
                             b_.d_values + keys, Into::add);
            Engine::multiply({block, size, block}, b_.d_scores, block, query_rows, b_.d_keys + keys,
                             Into::add);
            Engine::multiply({size, block, block}, b_.keys_transposed + j, at_.padded_length + skew,
                             d_scores_panel(), b_.d_queries, j > 0 ? Into::add : Into::overwrite);
        }
        float scales[block];
        std::fill(scales, scales + block, at_.scale);
        auto dst = gradient(first, at_.query(head));
        dst.rows = std::min(dst.rows, block);
        write_transposed(b_.d_queries, at_, scales, b_.d_query_rows, dst);
    }

    /// float32 panels are plain matrices.
    E const* d_scores_panel() const {
        return std::is_same_v<E, float> ? b_.d_scores : b_.d_scores_panel;
    }

    AttentionLayout const& at_;
    Operands in_;
    BackwardBuffers<E> b_;
    std::int64_t sequence_ = 0;
};

} // namespace

OperationPtr make_attention_backward(AttentionShape const& shape, Context const& context) {
    AttentionLayout const at{shape};
    int const threads = context.threads;
    return with_engine(shape.type, context.block_products, [&]<class T, class Engine>() {
        std::int64_t const bytes = BackwardBuffers<typename Engine::Element>::bytes(at);
        std::int64_t const tasks = at.length > 0 ? shape.sequences * shape.key_heads : 0;
        auto const body = [=](Operands in, std::byte* workspace) {
            over_tasks(threads, tasks, [&](std::int64_t task, std::int64_t worker) {
                Backward<T, Engine>{at, in, workspace + worker * bytes}.run(task / at.key_heads,
                                                                            task % at.key_heads);
            });
        };
        return make_operation(body, bytes * std::min<std::int64_t>(threads, tasks));
    });
}

} // namespace evener::kernels::host
