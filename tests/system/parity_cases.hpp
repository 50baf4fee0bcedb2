// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random models and plans for the parity tests, and what "the same model" means there.

#include "model/config.hpp"
#include "program/plan.hpp"
#include "support/random_plan.hpp"

#include "system/runs.hpp"

namespace evener::system_test {

inline constexpr std::int64_t parity_steps = 5;

struct ParityCase {
    model::ModelConfig config;
    program::Plan plan;
    std::string orders;  ///< CSV of an edited schedule; empty = the plan's own
    bool masked = false; ///< some targets do not count
    bool clipped = false;
};

ParityCase random_parity_case(std::uint64_t seed);

/// The case's plan with everything on rank 0.
program::Plan one_rank(program::Plan plan, std::int64_t layers);

/// The case's job without its plan.
job::Job job_of(ParityCase const& c, std::filesystem::path const& tokens,
                std::filesystem::path const& out);

/// Per tensor: ||difference|| <= 1e-5 x max(||gradient||, 1e-3 ||all gradients||).
void expect_equal_gradients(Tensors const& expected, Tensors const& found, std::int64_t step);

/// Losses of all steps of two run folders: 1e-5 of the larger of 1 and the loss.
void expect_equal_losses(std::filesystem::path const& a, std::filesystem::path const& b);

} // namespace evener::system_test
