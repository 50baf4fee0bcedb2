// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs `evener train` as a user would and reads back what it wrote.

#include "job/job.hpp"
#include "model/config.hpp"
#include "program/plan.hpp"
#include "support/process.hpp"

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace evener::system_test {

/// A token file (llm.c) of `tokens` random tokens below `vocabulary`.
void write_tokens(std::filesystem::path const& file, std::int64_t vocabulary, std::int64_t tokens,
                  std::uint64_t seed);

/// Two decoder layers of next to nothing, on 19 tokens and sequences of 8.
model::ModelConfig tiny_config();

/// A job of `steps` steps on that file, in float32 with SGD, one thread per rank, and one-rank
/// plan.
job::Job small_job(model::ModelConfig const& config, std::filesystem::path const& tokens,
                   std::filesystem::path const& out, std::int64_t steps);

/// A group that shares every microbatch evenly.
job::Group even_group(std::vector<std::int32_t> const& ranks, std::int64_t layers);

/// The job with another plan, written in the plan's words.
job::Job with_plan(job::Job job, program::Plan const& plan);

struct TrainOptions {
    int ranks = 1;
    std::uint64_t delay_seed = 0; ///< not 0: synchronous sends and random delays
    std::vector<std::string> settings{};
    std::vector<std::string> environment{}; ///< NAME=value
    std::string command = "train";          ///< or "profile"
    std::chrono::seconds timeout{120};
};

/// The environment of another MPI, see support/mpi_shim.cpp.
std::vector<std::string> mpi_shim();
/// That of a machine without CUDA, see support/hide_cuda.cpp.
std::vector<std::string> without_cuda();

/// Writes the job beside its run folder and returns the command that trains it on one rank.
std::vector<std::string> train_command(job::Job const& job,
                                       std::vector<std::string> const& settings = {});

/// Runs that command under mpirun for that many ranks.
support::ProcessResult train(job::Job const& job, TrainOptions const& options = {});

/// The metrics' values of one key by step; null becomes NaN.
std::map<std::int64_t, double> metrics(std::filesystem::path const& out, std::string const& key);

/// All tensors of one kind of a checkpoint, whole, by name.
using Tensors = std::map<std::string, std::vector<float>>;
Tensors tensors(std::filesystem::path const& checkpoint, std::string const& kind);

/// Every kind and tensor equal to the bit, and the training state too.
bool same_checkpoint(std::filesystem::path const& a, std::filesystem::path const& b);

std::filesystem::path step_folder(std::filesystem::path const& out, std::int64_t step);

} // namespace evener::system_test
