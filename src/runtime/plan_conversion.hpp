// SPDX-License-Identifier: Apache-2.0
#pragma once

// Between the words of the job and the data of model and plan.

#include "job/job.hpp"
#include "program/plan.hpp"

#include <vector>

namespace evener::runtime {

model::ModelConfig model_config(job::Model const& model);

/// The plan of a job with groups. `automatic` gives the compute type of a rank where the job leaves
/// it open; a group takes float32 when its ranks differ. `own_memory`: by rank, whether its device
/// has a memory of its own, which is where offload takes effect; empty = none has.
program::Plan plan_of(job::Job const& job, std::vector<core::DType> const& automatic,
                      std::vector<bool> const& own_memory = {});

/// The same plan, but for whose device has a memory of its own, in the job's words: for out/plan.toml
/// and for checkpoints. `base` gives the keys that a plan does not hold.
job::Plan plan_words(program::Plan const& plan, job::Plan const& base);

/// Gives a job without groups those of a plan that was made for it; what the job says of all groups
/// holds for them.
void take_groups(program::Plan const& made, job::Plan& words);

} // namespace evener::runtime
