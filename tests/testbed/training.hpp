// SPDX-License-Identifier: Apache-2.0
#pragma once

// The job that the tests of the testbed train: tiny, on four ranks in two groups.

#include "job/job.hpp"

#include "system/runs.hpp"

#include <filesystem>
#include <string>

namespace evener::testbed {

/// Writes the job's tokens into `folder`, as tokens.bin.
void write_training_data(std::filesystem::path const& folder);

/// The run `name` in `folder`: `steps` steps of a plan in which ranks 0 and 1 are the first group and 2
/// and 3 the last, so that with two ranks on a host the messages of the pipeline and those of the tied
/// weight go over the network.
job::Job training_job(std::filesystem::path const& folder, std::string const& name,
                      std::int64_t steps);

/// Losses equal to the bit, and checkpoints of the last of `steps` steps.
void expect_same_run(std::filesystem::path const& a, std::filesystem::path const& b,
                     std::int64_t steps);

} // namespace evener::testbed
