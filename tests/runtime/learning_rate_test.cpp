// SPDX-License-Identifier: Apache-2.0
#include "runtime/learning_rate.hpp"

#include <gtest/gtest.h>

namespace evener::runtime {
namespace {

job::Optimizer optimizer(job::Decay schedule) {
    job::Optimizer result;
    result.learning_rate = 1;
    result.min_learning_rate = 0.1;
    result.warmup_steps = 4;
    result.decay_steps = 14;
    result.schedule = schedule;
    return result;
}

TEST(LearningRate, WarmsUpInEqualSteps) {
    for (auto const schedule : {job::Decay::constant, job::Decay::linear, job::Decay::cosine}) {
        EXPECT_DOUBLE_EQ(learning_rate(optimizer(schedule), 0), 0.25);
        EXPECT_DOUBLE_EQ(learning_rate(optimizer(schedule), 3), 1.0);
        EXPECT_DOUBLE_EQ(learning_rate(optimizer(schedule), 4), 1.0);
    }
}

TEST(LearningRate, DecaysToItsMinimumAndStaysThere) {
    EXPECT_DOUBLE_EQ(learning_rate(optimizer(job::Decay::constant), 999), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(optimizer(job::Decay::linear), 9), 0.55);
    EXPECT_DOUBLE_EQ(learning_rate(optimizer(job::Decay::cosine), 9), 0.55); // half way
    EXPECT_GT(learning_rate(optimizer(job::Decay::cosine), 6),
              learning_rate(optimizer(job::Decay::linear), 6));
    for (std::int64_t const step : {14, 15, 1000}) {
        EXPECT_NEAR(learning_rate(optimizer(job::Decay::linear), step), 0.1, 1e-12);
        EXPECT_NEAR(learning_rate(optimizer(job::Decay::cosine), step), 0.1, 1e-12);
    }
}

TEST(LearningRate, HasNoWarmUpWhenThereIsNone) {
    job::Optimizer none = optimizer(job::Decay::linear);
    none.warmup_steps = 0;
    EXPECT_DOUBLE_EQ(learning_rate(none, 0), 1.0);
}

} // namespace
} // namespace evener::runtime
