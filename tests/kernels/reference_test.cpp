// SPDX-License-Identifier: Apache-2.0

// The reference against numbers worked out by hand.

#include "kernels/reference/operations.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

namespace evener::kernels::reference {
namespace {

using std::numbers::ln2;
using Values = std::vector<double>;

void expect_near(Values const& actual, Values const& expected, double limit = 1e-12) {
    ASSERT_EQ(actual.size(), expected.size());
    for (std::size_t i = 0; i < actual.size(); ++i)
        EXPECT_NEAR(actual[i], expected[i], limit) << "element " << i;
}

TEST(Rounding, ToBFloat16IsToNearestEven) {
    // 1 + 2^-8 lies halfway between 1 and 1 + 2^-7; 1 + 3 * 2^-8 between 1 + 2^-7 and 1 + 2^-6.
    EXPECT_EQ(to_bfloat16(1 + 0x1p-8f).bits, 0x3f80);
    EXPECT_EQ(to_bfloat16(1 + 0x1p-8f + 0x1p-20f).bits, 0x3f81);
    EXPECT_EQ(to_bfloat16(1 + 0x3p-8f).bits, 0x3f82);
    EXPECT_EQ(to_bfloat16(-2.5f).bits, 0xc020);
    EXPECT_EQ(to_bfloat16(3.4e38f).bits, 0x7f80); // overflows to infinity
    float const nan = std::numeric_limits<float>::quiet_NaN();
    EXPECT_TRUE(std::isnan(to_float(to_bfloat16(nan))));
    EXPECT_TRUE(std::isnan(to_float(to_bfloat16(std::bit_cast<float>(0x7f800001u)))));
}

TEST(Matmul, MultipliesInAllFourLayouts) {
    // [1 2 3; 4 5 6] * [1 0; 0 2; 1 1] = [4 7; 10 16]
    Values const a{1, 2, 3, 4, 5, 6}, a_t{1, 4, 2, 5, 3, 6};
    Values const b{1, 0, 0, 2, 1, 1}, b_t{1, 0, 1, 0, 2, 1};
    for (bool const ta : {false, true}) {
        for (bool const tb : {false, true}) {
            MatmulShape shape{2, 2, 3, ta, tb};
            Values dst(4, 9);
            matmul<double, double>(shape, ta ? a_t.data() : a.data(), tb ? b_t.data() : b.data(),
                                   nullptr, nullptr, dst.data());
            expect_near(dst, {4, 7, 10, 16});
        }
    }
}

TEST(Matmul, AddsBiasResidualOrWhatWasThere) {
    Values const a{2, 3}, b{5, 7, 11, 13}; // [2 3] * [5 7; 11 13] = [43 53]
    Values const bias{1, 2}, residual{10, 20};
    MatmulShape shape{1, 2, 2};
    shape.bias = shape.residual = true;
    Values dst{0, 0};
    matmul(shape, a.data(), b.data(), bias.data(), residual.data(), dst.data());
    expect_near(dst, {54, 75});
    MatmulShape adding{1, 2, 2};
    adding.accumulate = true;
    matmul<double, double>(adding, a.data(), b.data(), nullptr, nullptr, dst.data());
    expect_near(dst, {97, 128});
    adding.k = 0;
    matmul<double, double>(adding, a.data(), b.data(), nullptr, nullptr, dst.data());
    expect_near(dst, {97, 128});
}

TEST(RmsNorm, ScalesByRootMeanSquare) {
    // Row (3, 4): mean of squares 12.5; with epsilon 3.5 the root is 4.
    RmsNormShape shape{1, 2};
    shape.epsilon = 3.5f;
    Values const x{3, 4}, weight{2, 10};
    Values y(2), rstd(1);
    rms_norm(shape, x.data(), weight.data(), y.data(), rstd.data());
    expect_near(rstd, {0.25});
    expect_near(y, {1.5, 10});
    shape.rstd_given = true;
    rstd[0] = 1;
    rms_norm(shape, x.data(), weight.data(), y.data(), rstd.data());
    expect_near(y, {6, 40});
    expect_near(rstd, {1});
}

TEST(RmsNorm, BackwardFollowsItsFormula) {
    // g = dy * weight = (2, 20), xh = x * rstd = (0.75, 1); mean(g * xh) = 10.75.
    RmsNormShape const shape{1, 2};
    Values const x{3, 4}, weight{2, 10}, rstd{0.25}, dy{1, 2}, residual{100, 200};
    Values dx(2), dweight{1, 1};
    rms_norm_backward<double>(shape, x.data(), weight.data(), rstd.data(), dy.data(), nullptr,
                              dx.data());
    expect_near(dx, {0.25 * (2 - 0.75 * 10.75), 0.25 * (20 - 10.75)});
    rms_norm_backward(shape, x.data(), weight.data(), rstd.data(), dy.data(), residual.data(),
                      dx.data());
    expect_near(dx, {100 + 0.25 * (2 - 0.75 * 10.75), 200 + 0.25 * (20 - 10.75)});
    rms_norm_weight_gradient(shape, x.data(), rstd.data(), dy.data(), dweight.data());
    expect_near(dweight, {1.75, 3});
}

TEST(Rotary, TurnsPairsByPositionAndLeavesValues) {
    // One query, key and value head of size 4, theta 4: angles p and p / 2. Rows 1 and 3 have
    // position 1 of sequences of 2.
    RotaryShape shape{4, 2, 1, 1, 4, 4.0};
    Values qkv;
    for (int i = 0; i < 48; ++i)
        qkv.push_back(i % 12 + 1);
    Values const before = qkv;
    rotary(shape, qkv.data());
    Values expected = before;
    for (int const row : {1, 3}) {
        for (int const head : {0, 4}) {
            for (int const i : {0, 1}) {
                double const angle = i == 0 ? 1 : 0.5;
                auto const low = static_cast<std::size_t>(row * 12 + head + i);
                expected[low] = before[low] * std::cos(angle) - before[low + 2] * std::sin(angle);
                expected[low + 2] =
                    before[low + 2] * std::cos(angle) + before[low] * std::sin(angle);
            }
        }
    }
    expect_near(qkv, expected);
    shape.inverse = true;
    rotary(shape, qkv.data());
    expect_near(qkv, before);
}

TEST(Attention, WeighsValuesOfEarlierPositions) {
    // Head size 1, q = k = (0, ln 2): position 1 scores 0 and ln2 * ln2.
    AttentionShape const shape{1, 2, 1, 1, 1};
    Values const qkv{0, 0, 5, ln2, ln2, 11}; // rows q k v
    Values o(2), lse(2);
    attention(shape, qkv.data(), o.data(), lse.data());
    double const e = std::exp(ln2 * ln2);
    expect_near(o, {5, (5 + 11 * e) / (1 + e)});
    expect_near(lse, {0, std::log(1 + e)});
}

TEST(Attention, QueryHeadsShareKeyHeads) {
    // 4 query heads on 2 key heads, head size 1, one position: o is the value of head h / 2.
    AttentionShape const shape{1, 1, 4, 2, 1};
    Values const qkv{1, 2, 3, 4, 5, 6, 70, 80};
    Values o(4), lse(4);
    attention(shape, qkv.data(), o.data(), lse.data());
    expect_near(o, {70, 70, 80, 80});
    expect_near(lse, {5, 10, 18, 24});
}

TEST(Attention, BackwardOfOnePositionPassesToItsValue) {
    AttentionShape const shape{1, 1, 2, 1, 1};
    Values const qkv{1, 2, 3, 4}, o{4, 4}, lse{3, 6}, d_o{10, 100};
    Values dqkv(4, 9);
    attention_backward(shape, qkv.data(), o.data(), lse.data(), d_o.data(), dqkv.data());
    expect_near(dqkv, {0, 0, 0, 110});
}

TEST(Swiglu, GatesUpByItsSigmoid) {
    // sigmoid(ln 3) = 3/4, sigmoid(-ln 3) = 1/4.
    double const g = std::log(3.0);
    SwigluShape const shape{1, 2};
    Values const gate_up{g, -g, 8, 16}, dy{1, 2};
    Values y(2), d(4);
    swiglu(shape, gate_up.data(), y.data());
    expect_near(y, {6 * g, -4 * g});
    swiglu_backward(shape, gate_up.data(), dy.data(), d.data());
    expect_near(d, {8 * 0.75 * (1 + g * 0.25), 32 * 0.25 * (1 - g * 0.75), 0.75 * g, -0.5 * g});
}

TEST(Embedding, CopiesAndAddsRowsByToken) {
    EmbeddingShape const shape{3, 2, 4};
    std::vector<std::int32_t> const tokens{2, 0, 2};
    Values const table{1, 2, 3, 4, 5, 6, 7, 8};
    Values y(6);
    embedding(shape, tokens.data(), table.data(), y.data());
    expect_near(y, {5, 6, 1, 2, 5, 6});
    Values const dy{1, 2, 10, 20, 100, 200};
    Values dtable(8, 1);
    embedding_gradient(shape, tokens.data(), dy.data(), dtable.data());
    expect_near(dtable, {11, 21, 1, 1, 102, 203, 1, 1});
}

TEST(CrossEntropy, GivesLossGradientAndMasks) {
    // Row (0, ln 3): probabilities 1/4, 3/4. The second row is masked.
    double const l = std::log(3.0);
    CrossEntropyShape shape{2, 2, true};
    Values logits{0, l, 7, 7};
    std::vector<std::int32_t> const targets{1, -1};
    float const scale = 8;
    Values loss(2, 9), d(4, 9);
    cross_entropy(shape, logits.data(), targets.data(), &scale, loss.data(), d.data());
    expect_near(loss, {std::log(4.0 / 3), 0});
    expect_near(d, {2, -2, 0, 0});
    cross_entropy(shape, logits.data(), targets.data(), &scale, loss.data(), logits.data());
    expect_near(logits, {2, -2, 0, 0});
    shape.gradient = false;
    cross_entropy<double>(shape, d.data(), targets.data(), nullptr, loss.data(), nullptr);
    expect_near(loss, {std::log(1 + std::exp(4)), 0});
}

TEST(Adamw, StepsByItsMoments) {
    // g = 4 * 0.5 = 2; m = 0.5 * 1 + 0.5 * 2 = 1.5; v = 0.75 * 4 + 0.25 * 4 = 4; unbiased m = 3,
    // v = 16: step 3 / (4 + 2) = 0.5, decay 0.25 * 8 = 2, so p = 8 - 0.5 * 2.5.
    OptimizerScalars const scalars{0.5f, 0.5f, 0.75f, 2.0f, 0.25f, 0.5f, 0.5f, 0.25f};
    float p = 8, m = 1, v = 4, g = 4, weight = 0;
    adamw(OptimizerShape{1}, &p, &m, &v, &g, &weight, scalars);
    EXPECT_EQ(m, 1.5f);
    EXPECT_EQ(v, 4);
    EXPECT_EQ(p, 6.75f);
    EXPECT_EQ(weight, 6.75f);
}

TEST(Sgd, StepsDownTheGradient) {
    OptimizerScalars scalars;
    scalars.learning_rate = 0.5f;
    scalars.grad_scale = 0.25f;
    scalars.decay = 0.125f;
    float p = 8, g = 4;
    BFloat16 weight;
    sgd(OptimizerShape{1, Element::bfloat16}, &p, &g, &weight, scalars); // 8 - 0.5 * (1 + 1)
    EXPECT_EQ(p, 7);
    EXPECT_EQ(to_float(weight), 7);
    sgd<float>(OptimizerShape{1}, &p, &g, nullptr, scalars); // 7 - 0.5 * (1 + 0.875)
    EXPECT_EQ(p, 6.0625f);
}

TEST(Elementwise, ConvertsClearsAndAdds) {
    std::vector<float> const src{1, 2, 3, 4, 5, 6};
    std::vector<BFloat16> narrow(6);
    convert(ConvertShape{6, Element::float32, Element::bfloat16}, src.data(), narrow.data());
    EXPECT_EQ(to_float(narrow[4]), 5);

    std::vector<float> columns{100, 200, 300};
    column_sums(ColumnSumsShape{2, 3}, src.data(), columns.data());
    EXPECT_EQ(columns, (std::vector<float>{105, 207, 309}));

    Values sums{9, 9, 9};
    segment_sums({3, 2}, src.data(), sums.data());
    EXPECT_EQ(sums, (Values{3, 7, 11}));
    sum_squares({6}, src.data(), sums.data());
    EXPECT_EQ(sums[0], 91);
    float const bad[]{1, std::numeric_limits<float>::infinity()};
    sum_squares({2}, bad, sums.data());
    EXPECT_FALSE(std::isfinite(sums[0]));

    std::vector<std::byte> bytes(3, std::byte{7});
    clear({2}, bytes.data());
    EXPECT_EQ(bytes, (std::vector<std::byte>{std::byte{0}, std::byte{0}, std::byte{7}}));
}

} // namespace
} // namespace evener::kernels::reference
