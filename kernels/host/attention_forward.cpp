// SPDX-License-Identifier: Apache-2.0

// Causal attention with an online softmax (Milakov and Gimelshein 2018, Dao 2022). A task packs the
// keys and values of one (sequence, key head) and goes over blocks of queries of its query heads:
//   s[keys, queries] = K Q^T;  p = exp(s - running maximum);  o^T[size, queries] += V^T p

#include "kernels/host/attention_blocks.hpp"
#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"

#include <limits>

namespace evener::kernels::host {
namespace {

/// One worker's part of the workspace.
template <class E>
struct ForwardBuffers {
    ForwardBuffers(AttentionLayout const& at, std::byte* begin) {
        Carver carver{begin};
        carve(at, [&]<class X>(X*& array, std::int64_t count) { array = carver.take<X>(count); });
    }

    static std::int64_t bytes(AttentionLayout const& at) {
        std::int64_t total = 0;
        ForwardBuffers nowhere;
        nowhere.carve(at, [&]<class X>(X*&, std::int64_t count) {
            total += Carver::bytes(count * static_cast<std::int64_t>(sizeof(X)));
        });
        return total;
    }

    E* keys;              ///< [padded_length, padded_size]
    E* values_transposed; ///< [padded_size, padded_length + skew]
    E* rows;              ///< [block, padded_size]
    E* queries;           ///< panel [padded_size, block]
    E* weights;           ///< p, panel [block, block]
    float* scores;        ///< [block, block]
    float* out;           ///< [padded_size, block]
    float* out_rows;      ///< [block, padded_size]
    float* top;           ///< [block]: running maximum of the scores
    float* total;         ///< [block]: running sum of the weights
    float* rescale;       ///< [block]

  private:
    ForwardBuffers() = default;

    template <class Take>
    void carve(AttentionLayout const& at, Take&& take) {
        take(keys, at.padded_length * at.padded_size);
        take(values_transposed, at.padded_size * (at.padded_length + skew));
        take(rows, block * at.padded_size);
        take(queries, block * at.padded_size);
        take(weights, block * block);
        take(scores, block * block);
        take(out, block * at.padded_size);
        take(out_rows, block * at.padded_size);
        take(top, block);
        take(total, block);
        take(rescale, block);
    }
};

/// weights = exp2(scores * scale - new maximum), columns of queries; updates maximum and sum and
/// leaves in `rescale` what older sums are to be multiplied with. In a diagonal block a query sees
/// the keys up to itself.
template <bool diagonal, class E>
void soften(ForwardBuffers<E> const& b, float scale) {
    Floats top[groups], shift[groups], total[groups];
    for (std::int64_t g = 0; g < groups; ++g)
        top[g] = load(b.top + g * lanes);
    for (std::int64_t j = 0; j < block; ++j) {
#pragma GCC unroll 4
        for (std::int64_t g = 0; g < groups; ++g) {
            Floats const larger = max(top[g], load(b.scores + j * block + g * lanes));
            top[g] = diagonal ? select(visible(g * lanes, j), larger, top[g]) : larger;
        }
    }
    for (std::int64_t g = 0; g < groups; ++g) {
        shift[g] = top[g] * scale;
        Floats const rescale = exp2(load(b.top + g * lanes) * scale - shift[g]);
        total[g] = load(b.total + g * lanes) * rescale;
        store(b.top + g * lanes, top[g]);
        store(b.rescale + g * lanes, rescale);
    }
    for (std::int64_t j = 0; j < block; j += 2) {
#pragma GCC unroll 4
        for (std::int64_t g = 0; g < groups; ++g) {
            float const* const scores = b.scores + j * block + g * lanes;
            Floats even = exp2_not_above(load(scores) * scale - shift[g]);
            Floats odd = exp2_not_above(load(scores + block) * scale - shift[g]);
            if constexpr (diagonal) {
                even = select(visible(g * lanes, j), even, Floats{});
                odd = select(visible(g * lanes, j + 1), odd, Floats{});
            }
            total[g] += even + odd;
            store_pair(b.weights, j, g * lanes, even, odd);
        }
    }
    for (std::int64_t g = 0; g < groups; ++g)
        store(b.total + g * lanes, total[g]);
}

template <class T, class Engine>
class Forward {
  public:
    using E = typename Engine::Element;

    Forward(AttentionLayout const& layout, Operands in, std::byte* workspace)
        : at_{layout}, qkv_{in.at<T>(AttentionOperand::qkv)}, o_{in.at<T>(AttentionOperand::o)},
          lse_{in.at<float>(AttentionOperand::lse)}, b_{layout, workspace} {}

    /// Query blocks first_block, first_block + step, ... of the query heads of one key head.
    void run(std::int64_t sequence, std::int64_t key_head, std::int64_t first_block,
             std::int64_t step) {
        [[maybe_unused]] typename Engine::Session const session;
        std::int64_t const blocks = at_.padded_length / block;
        for (std::int64_t g = 0; g < at_.group; ++g) {
            for (std::int64_t i = first_block; i < blocks; i += step) {
                for (; packed_ <= i; ++packed_)
                    pack(sequence, key_head, packed_ * block);
                attend(sequence, key_head * at_.group + g, i, step);
            }
        }
    }

  private:
    HeadRows<T const> rows(std::int64_t sequence, std::int64_t first, std::int64_t col) const {
        return {qkv_ + (sequence * at_.length + first) * at_.cols + col, at_.cols,
                at_.length - first};
    }

    /// Keys and values j .. j + block, just before the first queries that see them; meanwhile the
    /// next ones are on their way into the cache.
    void pack(std::int64_t sequence, std::int64_t key_head, std::int64_t j) {
        copy_rows(rows(sequence, j, at_.key(key_head)), at_, block, b_.keys + j * at_.padded_size);
        copy_rows(rows(sequence, j, at_.value(key_head)), at_, block, b_.rows);
        transpose_rows(b_.rows, at_.padded_size, b_.values_transposed + j,
                       at_.padded_length + skew);
        prefetch_rows<Access::read>(rows(sequence, j + block, at_.key(key_head)), at_);
        prefetch_rows<Access::read>(rows(sequence, j + block, at_.value(key_head)), at_);
    }

    HeadRows<T> output(std::int64_t sequence, std::int64_t first, std::int64_t head) const {
        T* const begin = o_ + (sequence * at_.length + first) * at_.out_cols + head * at_.size;
        return {begin, at_.out_cols, std::min(block, at_.length - first)};
    }

    void attend(std::int64_t sequence, std::int64_t head, std::int64_t query_block,
                std::int64_t step) {
        std::int64_t const next = (query_block + step) * block;
        prefetch_rows<Access::read>(rows(sequence, next, at_.query(head)), at_);
        prefetch_rows<Access::write>(output(sequence, query_block * block, head), at_);
        float const scale = at_.scale * 1.44269504f; // of exp2
        std::int64_t const first = query_block * block;
        copy_rows(rows(sequence, first, at_.query(head)), at_, block, b_.rows);
        transposed_panel(b_.rows, at_.padded_size, b_.queries);
        std::fill(b_.top, b_.top + block, -std::numeric_limits<float>::infinity());
        std::fill(b_.total, b_.total + block, 0.0f);
        for (std::int64_t j = 0; j <= query_block; ++j) {
            Engine::multiply({block, block, at_.padded_size}, b_.keys + j * block * at_.padded_size,
                             at_.padded_size, b_.queries, b_.scores, Into::overwrite);
            if (j == query_block)
                soften<true>(b_, scale);
            else
                soften<false>(b_, scale);
            if (j > 0)
                rescale_out();
            Engine::multiply({at_.padded_size, block, block}, b_.values_transposed + j * block,
                             at_.padded_length + skew, b_.weights, b_.out,
                             j > 0 ? Into::add : Into::overwrite);
        }
        finish(sequence, head, first);
    }

    void rescale_out() {
        for (std::int64_t q = 0; q < block; q += lanes) {
            Floats const factor = load(b_.rescale + q);
            for (std::int64_t c = 0; c < at_.padded_size; ++c) {
                float* const out = b_.out + c * block + q;
                store(out, load(out) * factor);
            }
        }
    }

    void finish(std::int64_t sequence, std::int64_t head, std::int64_t first) {
        HeadRows<T> const dst = output(sequence, first, head);
        float inverse[block];
        float* const lse = lse_ + (sequence * at_.length + first) * at_.query_heads + head;
        for (std::int64_t i = 0; i < dst.rows; ++i) {
            inverse[i] = 1 / b_.total[i];
            lse[i * at_.query_heads] = b_.top[i] * at_.scale + std::log(b_.total[i]);
        }
        write_transposed(b_.out, at_, inverse, b_.out_rows, dst);
    }

    AttentionLayout const& at_;
    T const* qkv_;
    T* o_;
    float* lse_;
    ForwardBuffers<E> b_;
    std::int64_t packed_ = 0; ///< blocks of keys
};

} // namespace

OperationPtr make_attention(AttentionShape const& shape, Context const& context) {
    AttentionLayout const at{shape};
    int const threads = context.threads;
    std::int64_t const heads = shape.sequences * shape.key_heads;
    std::int64_t const blocks = at.padded_length / block;
    // Where (sequence, key head) pairs are few, their query blocks are dealt to several tasks, each
    // of which packs the keys again.
    std::int64_t parts = 1;
    if (threads > 1 && heads > 0 && heads < 4 * threads)
        parts = std::min<std::int64_t>(std::max<std::int64_t>(blocks, 1),
                                       (4 * threads + heads - 1) / heads);
    return with_engine(shape.type, context.block_products, [&]<class T, class Engine>() {
        std::int64_t const bytes = ForwardBuffers<typename Engine::Element>::bytes(at);
        std::int64_t const tasks = blocks > 0 ? heads * parts : 0;
        auto const body = [=](Operands in, std::byte* workspace) {
            over_tasks(threads, tasks, [&](std::int64_t task, std::int64_t worker) {
                std::int64_t const head = task / parts;
                Forward<T, Engine>{at, in, workspace + worker * bytes}.run(
                    head / at.key_heads, head % at.key_heads, task % parts, parts);
            });
        };
        return make_operation(body, bytes * std::min<std::int64_t>(threads, tasks));
    });
}

} // namespace evener::kernels::host
