// SPDX-License-Identifier: Apache-2.0

// Attention of a plug-in on random shapes, each element by a bound of its own: the rounding of the
// terms it is a sum of, added up without their signs. A pair of query and key that is left out,
// seen too early or counted twice shows even where other elements are much larger.

#include "kernels/bfloat16.hpp"
#include "kernels/reference/reference.hpp"
#include "support/sizes.hpp"

#include "cases.hpp"
#include <gtest/gtest.h>

#include <cmath>
#include <random>

namespace evener::kernels::test {
namespace {

using Values = std::vector<double>;

/// A result and the sum of its terms' magnitudes.
struct Bounded {
    explicit Bounded(std::size_t count) : value(count), magnitude(count) {}
    void add(std::size_t at, double term, double uncertain) {
        value[at] += term;
        magnitude[at] += uncertain;
    }
    Values value, magnitude;
};

/// Columns of a row of qkv.
struct Columns {
    explicit Columns(AttentionShape const& shape) : s{shape} {}
    std::size_t row(std::int64_t r) const {
        return static_cast<std::size_t>(r * (s.query_heads + 2 * s.key_heads) * s.head_size);
    }
    std::size_t query(std::int64_t h) const { return static_cast<std::size_t>(h * s.head_size); }
    std::size_t key(std::int64_t h) const {
        return query(s.query_heads + h / (s.query_heads / s.key_heads));
    }
    std::size_t value(std::int64_t h) const { return key(h) + query(s.key_heads); }
    AttentionShape const& s;
};

double dot(double const* a, double const* b, std::int64_t size) {
    double sum = 0;
    for (std::int64_t c = 0; c < size; ++c)
        sum += a[c] * b[c];
    return sum;
}

double dot_of_magnitudes(double const* a, double const* b, std::int64_t size) {
    double sum = 0;
    for (std::int64_t c = 0; c < size; ++c)
        sum += std::abs(a[c] * b[c]);
    return sum;
}

/// Rounding of terms and results, which are of the type; sums are float32.
double unit(Element type) {
    return type == Element::float32 ? 0x1p-18 : 0x1p-7;
}

/// Calls body(row of the query, row of the key, head, weight) for all pairs.
template <class Body>
void over_pairs(AttentionShape const& s, Values const& qkv, Values const& lse, Body const& body) {
    Columns const at{s};
    double const scale = 1 / std::sqrt(static_cast<double>(s.head_size));
    for (std::int64_t r = 0; r < s.sequences * s.sequence_length; ++r)
        for (std::int64_t h = 0; h < s.query_heads; ++h)
            for (std::int64_t k = r - r % s.sequence_length; k <= r; ++k) {
                double const score = scale * dot(qkv.data() + at.row(r) + at.query(h),
                                                 qkv.data() + at.row(k) + at.key(h), s.head_size);
                body(r, k, h,
                     std::exp(score - lse[static_cast<std::size_t>(r * s.query_heads + h)]));
            }
}

/// Elements of o and d_o from (row, head) on.
std::size_t output_at(AttentionShape const& s, std::int64_t row, std::int64_t head) {
    return static_cast<std::size_t>((row * s.query_heads + head) * s.head_size);
}

Bounded forward_bounds(AttentionShape const& s, Values const& qkv, Values const& lse) {
    Columns const at{s};
    Bounded o{output_at(s, s.sequences * s.sequence_length, 0)};
    over_pairs(s, qkv, lse, [&](auto r, auto k, auto h, double p) {
        for (std::int64_t c = 0; c < s.head_size; ++c) {
            auto const column = static_cast<std::size_t>(c);
            double const term = p * qkv[at.row(k) + at.value(h) + column];
            o.add(output_at(s, r, h) + column, term, std::abs(term));
        }
    });
    return o;
}

Bounded backward_bounds(AttentionShape const& s, std::vector<Values> const& in) {
    using O = AttentionBackwardOperand;
    Values const& qkv = in[O::qkv];
    Values const& d_o = in[O::d_o];
    Columns const at{s};
    double const scale = 1 / std::sqrt(static_cast<double>(s.head_size));
    Bounded d{qkv.size()};
    over_pairs(s, qkv, in[O::lse], [&](auto r, auto k, auto h, double p) {
        auto const out = output_at(s, r, h);
        auto const q = at.row(r) + at.query(h);
        auto const key = at.row(k) + at.key(h);
        auto const value = at.row(k) + at.value(h);
        double const* const o = in[O::o].data() + out;
        double const* const dy = d_o.data() + out;
        double const* const v = qkv.data() + value;
        double const ds = scale * p * (dot(dy, v, s.head_size) - dot(dy, o, s.head_size));
        // The difference is one of float32 sums, whatever the type.
        double const lost =
            dot_of_magnitudes(dy, v, s.head_size) + dot_of_magnitudes(dy, o, s.head_size);
        double const unsure =
            std::abs(ds) + scale * p * lost * unit(Element::float32) / unit(s.type);
        for (std::int64_t c = 0; c < s.head_size; ++c) {
            auto const column = static_cast<std::size_t>(c);
            d.add(q + column, ds * qkv[key + column], unsure * std::abs(qkv[key + column]));
            d.add(key + column, ds * qkv[q + column], unsure * std::abs(qkv[q + column]));
            double const term = p * d_o[out + column];
            d.add(value + column, term, std::abs(term));
        }
    });
    return d;
}

void expect_within(Bounded const& expected, Values const& actual, Element type) {
    ASSERT_EQ(expected.value.size(), actual.size());
    for (std::size_t i = 0; i < actual.size(); ++i)
        ASSERT_TRUE(std::abs(actual[i] - expected.value[i]) <=
                    unit(type) * expected.magnitude[i] + 1e-30)
            << "element " << i << ": " << actual[i] << ", expected " << expected.value[i]
            << ", its terms add up to " << expected.magnitude[i];
}

/// Head sizes of all kinds: those that tensor-core kernels are made for, that they pad, and others.
AttentionShape random_shape(std::uint64_t seed) {
    constexpr std::int64_t head_sizes[] = {64, 128, 96, 32, 19, 88, 136, 8};
    std::mt19937_64 random{seed};
    auto const up_to = [&](std::int64_t most) {
        return 1 + static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(most));
    };
    AttentionShape shape;
    shape.sequences = up_to(2);
    shape.sequence_length = up_to(180);
    shape.key_heads = up_to(2);
    shape.query_heads = shape.key_heads * up_to(3);
    shape.head_size = head_sizes[random() % std::size(head_sizes)];
    shape.type = random() % 4 == 0 ? Element::float32 : Element::bfloat16;
    return shape;
}

class Attention : public testing::Test {
  public:
    void SetUp() override {
        if (plugin_table() == nullptr)
            GTEST_SKIP() << why_unusable();
    }
};

TEST_F(Attention, IsRightInEveryElement) {
    OpenTable const open{plugin_table(), test_threads()};
    for (std::uint64_t const seed : support::seeds("attention", 120)) {
        AttentionShape const shape = random_shape(seed);
        Case const backward = attention_backward_case(shape);
        SCOPED_TRACE(backward.name + ", EVENER_TEST_SEED=" + std::to_string(seed));
        auto const gradients = run(open, backward);
        auto const results = run(open, attention_case(shape));
        Values const& lse = gradients[AttentionBackwardOperand::lse]; // the reference's
        for (std::size_t i = 0; i < lse.size(); ++i)
            ASSERT_NEAR(results[AttentionOperand::lse][i], lse[i], 1e-5 + 1e-6 * std::abs(lse[i]));
        expect_within(forward_bounds(shape, results[AttentionOperand::qkv], lse),
                      results[AttentionOperand::o], shape.type);
        expect_within(backward_bounds(shape, gradients), gradients[AttentionBackwardOperand::dqkv],
                      shape.type);
    }
}

/// Which kernel ran shows in the last bits: tensor cores take weights rounded to bfloat16.
TEST_F(Attention, OnlyAlignedHeadsTakeTensorCores) {
    if (std::string{plugin_table()->kind} != "cuda")
        GTEST_SKIP() << "other back ends have one algorithm";
    OpenTable const open{plugin_table(), test_threads()};
    auto const depends_on_addresses = [&](std::int64_t head_size, Element type) {
        AttentionShape const shape{1, 50, 2, 1, head_size, type};
        for (Case const& test : {attention_case(shape), attention_backward_case(shape)})
            if (run(open, test) == run(open, test, Addresses::odd))
                return false;
        return true;
    };
    for (std::int64_t const head_size : {8, 64, 72, 96, 128})
        EXPECT_TRUE(depends_on_addresses(head_size, Element::bfloat16)) << head_size;
    for (std::int64_t const head_size : {12, 136})
        EXPECT_FALSE(depends_on_addresses(head_size, Element::bfloat16)) << head_size;
    EXPECT_FALSE(depends_on_addresses(64, Element::float32));
}

} // namespace
} // namespace evener::kernels::test
