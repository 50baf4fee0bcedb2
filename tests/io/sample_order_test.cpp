// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"
#include "io/sample_order.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

namespace evener::io {
namespace {

std::vector<std::int64_t> take(SampleOrder const& order, std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> samples;
    for (std::int64_t k = begin; k < end; ++k)
        samples.push_back(order.sample(k));
    return samples;
}

TEST(SampleOrder, VisitsEverySampleOncePerEpoch) {
    for (std::int64_t const n : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 31, 97, 1009, 4096, 4097})
        for (std::uint64_t const seed : {0u, 1u, 12345u}) {
            SampleOrder const order{n, seed};
            std::vector<std::int64_t> all(static_cast<std::size_t>(n));
            std::iota(all.begin(), all.end(), 0);
            for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
                std::vector<std::int64_t> samples = take(order, epoch * n, (epoch + 1) * n);
                std::sort(samples.begin(), samples.end());
                ASSERT_EQ(samples, all) << "N " << n << " seed " << seed << " epoch " << epoch;
            }
        }
}

TEST(SampleOrder, DiffersBetweenEpochsAndSeeds) {
    SampleOrder const order{1009, 1};
    EXPECT_NE(take(order, 0, 1009), take(order, 1009, 2018));
    EXPECT_NE(take(order, 0, 1009), take(SampleOrder{1009, 2}, 0, 1009));
    EXPECT_NE(take(order, 0, 1009), take(SampleOrder{1009, 1 + (std::uint64_t{1} << 32)}, 0, 1009));
}

TEST(SampleOrder, KeepsItsOrderForGood) {
    // Written down once: a change here reorders the data of every run that resumes.
    EXPECT_EQ(
        take(SampleOrder{10, 42}, 0, 20),
        (std::vector<std::int64_t>{6, 7, 4, 9, 5, 3, 0, 2, 1, 8, 6, 4, 7, 9, 3, 0, 5, 1, 8, 2}));
}

TEST(SampleOrder, AnswersInAnyOrderOfAsking) {
    SampleOrder const order{97, 5};
    std::vector<std::int64_t> const forwards = take(order, 0, 300);
    for (std::int64_t k = 299; k >= 0; --k)
        EXPECT_EQ(SampleOrder(97, 5).sample(k), forwards[static_cast<std::size_t>(k)]);
}

TEST(SampleOrder, PutsEverySampleAtEveryPlaceEquallyOften) {
    // 4000 epochs of 5 samples: chi-square over the 25 (place, sample) counts, 16 degrees of
    // freedom.
    constexpr std::int64_t epochs = 4000;
    SampleOrder const order{5, 3};
    double counts[5][5] = {};
    for (std::int64_t k = 0; k < 5 * epochs; ++k)
        ++counts[k % 5][order.sample(k)];
    double chi_square = 0;
    for (auto const& row : counts)
        for (double const count : row)
            chi_square += (count - epochs / 5.0) * (count - epochs / 5.0) / (epochs / 5.0);
    EXPECT_LT(chi_square, 39.25); // p = 0.001
}

TEST(SampleOrder, ScattersNeighbours) {
    SampleOrder const order{10007, 3};
    double distance = 0;
    for (std::int64_t k = 0; k + 1 < 10007; ++k)
        distance += std::abs(static_cast<double>(order.sample(k) - order.sample(k + 1)));
    EXPECT_NEAR(distance / 10006, 10007 / 3.0, 150); // mean distance of two random places is N/3
}

TEST(SampleOrder, HandlesATrillionSamples) {
    for (std::int64_t const n : {std::int64_t{1} << 40, (std::int64_t{1} << 40) - 87}) {
        SampleOrder const order{n, 9};
        std::set<std::int64_t> seen;
        for (std::int64_t i = 0; i < 20000; ++i) {
            std::int64_t const sample = order.sample(n - 10000 + i); // across an epoch's end
            ASSERT_GE(sample, 0);
            ASSERT_LT(sample, n);
            if (i < 10000)
                seen.insert(sample);
        }
        EXPECT_EQ(seen.size(), 10000u);
    }
    EXPECT_GE(SampleOrder(std::int64_t{1} << 62, 1).sample(0), 0);
}

TEST(SampleOrder, CountsUpWithoutShuffling) {
    SampleOrder const order{3, 9, false};
    EXPECT_EQ(take(order, 0, 7), (std::vector<std::int64_t>{0, 1, 2, 0, 1, 2, 0}));
}

TEST(SampleOrder, RefusesNoSamples) {
    EXPECT_THROW((SampleOrder{0, 1}), core::ContractViolation);
    EXPECT_THROW(SampleOrder(5, 1).sample(-1), core::ContractViolation);
}

} // namespace
} // namespace evener::io
