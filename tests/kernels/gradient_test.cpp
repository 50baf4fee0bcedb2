// SPDX-License-Identifier: Apache-2.0

// Each backward pass of the reference against central differences of its forward pass, in double:
// the loss is the outputs weighted with fixed numbers, and every input element is moved.

#include "kernels/reference/operations.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace evener::kernels::reference {
namespace {

using Values = std::vector<double>;

/// Fixed numbers in about (-1, 1).
Values numbers(std::size_t count, double seed) {
    Values values;
    for (std::size_t i = 0; i < count; ++i)
        values.push_back(std::sin(seed + 1.7 * static_cast<double>(i)) * 0.9);
    return values;
}

double dot(Values const& a, Values const& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        sum += a[i] * b[i];
    return sum;
}

/// gradient[i] = d loss / d x[i], where loss() reads x.
void expect_gradient(Values& x, Values const& gradient, std::function<double()> const& loss) {
    ASSERT_EQ(x.size(), gradient.size());
    double const h = 1e-5;
    for (std::size_t i = 0; i < x.size(); ++i) {
        double const kept = x[i];
        x[i] = kept + h;
        double const above = loss();
        x[i] = kept - h;
        double const below = loss();
        x[i] = kept;
        EXPECT_NEAR(gradient[i], (above - below) / (2 * h), 1e-8) << "element " << i;
    }
}

TEST(Gradient, OfMatmulIsTwoTransposedProducts) {
    MatmulShape const forward{3, 5, 4};
    Values a = numbers(12, 1), b = numbers(20, 2);
    Values const dy = numbers(15, 3);
    auto const loss = [&] {
        Values y(15);
        matmul<double, double>(forward, a.data(), b.data(), nullptr, nullptr, y.data());
        return dot(y, dy);
    };
    Values da(12), db(20);
    matmul<double, double>({3, 4, 5, false, true}, dy.data(), b.data(), nullptr, nullptr,
                           da.data());
    matmul<double, double>({4, 5, 3, true, false}, a.data(), dy.data(), nullptr, nullptr,
                           db.data());
    expect_gradient(a, da, loss);
    expect_gradient(b, db, loss);
}

TEST(Gradient, OfRmsNorm) {
    RmsNormShape shape{3, 5};
    shape.epsilon = 0.01f;
    Values x = numbers(15, 1), weight = numbers(5, 2), rstd(3), y(15);
    Values const dy = numbers(15, 3);
    auto const loss = [&] {
        rms_norm(shape, x.data(), weight.data(), y.data(), rstd.data());
        return dot(y, dy);
    };
    loss();
    Values const statistics = rstd;
    Values dx(15), dweight(5);
    rms_norm_backward<double>(shape, x.data(), weight.data(), statistics.data(), dy.data(), nullptr,
                              dx.data());
    rms_norm_weight_gradient(shape, x.data(), statistics.data(), dy.data(), dweight.data());
    expect_gradient(x, dx, loss);
    expect_gradient(weight, dweight, loss);
}

TEST(Gradient, OfRotaryIsTheInverseTurn) {
    RotaryShape shape{6, 3, 2, 1, 4, 10.0};
    Values x = numbers(6 * 16, 1);
    Values const dy = numbers(x.size(), 2);
    auto const loss = [&] {
        Values y = x;
        rotary(shape, y.data());
        return dot(y, dy);
    };
    Values dx = dy;
    RotaryShape inverse = shape;
    inverse.inverse = true;
    rotary(inverse, dx.data());
    expect_gradient(x, dx, loss);
}

TEST(Gradient, OfAttention) {
    AttentionShape const shape{2, 4, 4, 2, 3};
    Values qkv = numbers(8 * 24, 1), o(8 * 12), lse(8 * 4);
    Values const d_o = numbers(o.size(), 2);
    auto const loss = [&] {
        attention(shape, qkv.data(), o.data(), lse.data());
        return dot(o, d_o);
    };
    loss();
    Values const outputs = o, sums = lse;
    Values dqkv(qkv.size());
    attention_backward(shape, qkv.data(), outputs.data(), sums.data(), d_o.data(), dqkv.data());
    expect_gradient(qkv, dqkv, loss);
}

TEST(Gradient, OfSwiglu) {
    SwigluShape const shape{2, 3};
    Values x = numbers(12, 1), y(6);
    Values const dy = numbers(6, 2);
    auto const loss = [&] {
        swiglu(shape, x.data(), y.data());
        return dot(y, dy);
    };
    Values dx(12);
    swiglu_backward(shape, x.data(), dy.data(), dx.data());
    expect_gradient(x, dx, loss);
}

TEST(Gradient, OfEmbedding) {
    EmbeddingShape const shape{4, 3, 5};
    std::vector<std::int32_t> const tokens{1, 4, 1, 0};
    Values table = numbers(15, 1), y(12), dtable(15);
    Values const dy = numbers(12, 2);
    auto const loss = [&] {
        embedding(shape, tokens.data(), table.data(), y.data());
        return dot(y, dy);
    };
    embedding_gradient(shape, tokens.data(), dy.data(), dtable.data());
    expect_gradient(table, dtable, loss);
}

TEST(Gradient, OfCrossEntropy) {
    CrossEntropyShape const shape{3, 4, true};
    std::vector<std::int32_t> const targets{2, -1, 0};
    float const scale = 0.5;
    Values logits = numbers(12, 1), loss(3), d(12);
    auto const total = [&] {
        CrossEntropyShape const forward{3, 4};
        cross_entropy<double>(forward, logits.data(), targets.data(), nullptr, loss.data(),
                              nullptr);
        return scale * (loss[0] + loss[1] + loss[2]);
    };
    cross_entropy(shape, logits.data(), targets.data(), &scale, loss.data(), d.data());
    expect_gradient(logits, d, total);
}

} // namespace
} // namespace evener::kernels::reference
