// SPDX-License-Identifier: Apache-2.0
#include "runtime/step_state.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace evener::runtime {
namespace {

StepState rank_state(std::vector<double> losses, std::vector<core::Range> heads,
                     std::vector<SliceSquare> squares, std::int64_t tokens) {
    StepState state;
    state.sequence_losses = std::move(losses);
    state.head_sequences = std::move(heads);
    state.squares = std::move(squares);
    state.tokens = tokens;
    state.next_tokens = 2 * tokens;
    return state;
}

// What is added does not depend on who contributes it: 0.1 + 0.2 + 0.3 is not 0.3 + 0.2 + 0.1.
TEST(StepScalars, AreAddedInCanonicalOrderWhateverRanksTheyComeFrom) {
    core::ParameterId const p{0};
    core::ParameterId const q{1};
    StepState const whole = rank_state({0.1, 0.2, 0.3, 1e17, -1e17}, {{0, 5}},
                                       {{p, 0, 0.1}, {p, 4, 1e-9}, {q, 0, 7}}, 9);
    StepState const left =
        rank_state({0, 0, 0.3, 1e17, -1e17}, {{2, 5}}, {{q, 0, 7}, {p, 4, 1e-9}}, 4);
    StepState const right = rank_state({0.1, 0.2, 0, 0, 0}, {{0, 2}}, {{p, 0, 0.1}}, 5);
    StepScalars const one = decode_scalars(combine({contribution(whole)}));
    StepScalars const two = decode_scalars(combine({contribution(left), contribution(right)}));
    StepScalars const swapped = decode_scalars(combine({contribution(right), contribution(left)}));
    EXPECT_EQ(one.loss_sum, ((((0.1 + 0.2) + 0.3) + 1e17) - 1e17));
    EXPECT_EQ(one.squared_gradient_norm, (0.1 + 1e-9) + 7);
    for (StepScalars const& other : {two, swapped}) {
        EXPECT_EQ(other.loss_sum, one.loss_sum);
        EXPECT_EQ(other.squared_gradient_norm, one.squared_gradient_norm);
        EXPECT_EQ(other.tokens, 9);
        EXPECT_EQ(other.next_tokens, 18);
    }
}

TEST(ClipFactor, ScalesTheNormDownToTheLimitAndNeverUp) {
    StepScalars scalars;
    scalars.squared_gradient_norm = 25;
    EXPECT_FLOAT_EQ(clip_factor(scalars, 1), 0.2f);
    EXPECT_EQ(clip_factor(scalars, 6), 1.0f);
    EXPECT_EQ(clip_factor(scalars, 0), 1.0f);
}

TEST(IsFinite, SeesALossOrANormThatIsNot) {
    StepScalars scalars;
    EXPECT_TRUE(is_finite(scalars));
    scalars.loss_sum = std::numeric_limits<double>::quiet_NaN();
    EXPECT_FALSE(is_finite(scalars));
    scalars.loss_sum = 1;
    scalars.squared_gradient_norm = std::numeric_limits<double>::infinity();
    EXPECT_FALSE(is_finite(scalars));
}

} // namespace
} // namespace evener::runtime
