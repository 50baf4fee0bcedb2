// SPDX-License-Identifier: Apache-2.0
#pragma once

// Between the words of the job and the data of model and plan.

#include "job/job.hpp"
#include "program/plan.hpp"

#include <vector>

namespace evener::runtime {

model::ModelConfig model_config(job::Model const& model);

/// The plan of a job with groups. `automatic` gives the compute type of a rank where the job leaves
/// it open; a group takes float32 when its ranks differ.
program::Plan plan_of(job::Job const& job, std::vector<core::DType> const& automatic);

/// The same plan in the job's words: for out/plan.toml and for checkpoints. `base` gives the keys
/// that a plan does not hold.
job::Plan plan_words(program::Plan const& plan, job::Plan const& base);

} // namespace evener::runtime
