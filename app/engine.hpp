// SPDX-License-Identifier: Apache-2.0
#pragma once

// What every command that computes needs before it has a plan (device, speeds of all ranks), and
// the way from a plan to verified programs.

#include "device/plugin.hpp"
#include "job/job.hpp"
#include "planner/default_plan.hpp"
#include "planner/profile.hpp"
#include "runtime/session.hpp"

#include "app/mpi_job.hpp"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace evener::app {

/// One rank as all others know it.
struct RankFacts {
    double gflops[2] = {}; ///< matrix rate in float32 and bfloat16; 0 = not supported
    std::int64_t threads = 1;
    std::int64_t cores = 1;
    bool own_memory = false;       ///< its device has a memory of its own, as GPUs do
    std::int64_t device_bytes = 0; ///< what is left of that

    /// The faster type.
    core::DType automatic() const {
        return gflops[1] > 1.05 * gflops[0] ? core::DType::bfloat16 : core::DType::float32;
    }
    double rate(core::DType type) const { return gflops[type == core::DType::float32 ? 0 : 1]; }
};

struct Engine {
    std::unique_ptr<device::Device> device;
    std::unique_ptr<runtime::OperationCache> cache;
    std::vector<RankFacts> ranks;
    std::vector<std::string> devices; ///< of each rank: "x86-64-v4", or a GPU's name
    std::optional<device::Gpu> gpu;   ///< of this rank; none: it computes on the CPU
    std::int64_t gpu_ranks = 0;       ///< how many ranks have one
};

/// Collective: opens the device and measures it on all ranks at once, as they will run.
Engine start_engine(comm::MpiSession const& mpi, job::Run const& run,
                    model::ModelConfig const& model, std::int64_t microbatch_size);

/// Without MPI: this process's device, no measurements (`evener plan`).
std::unique_ptr<device::Device> open_own_device(job::Run const& run);

/// GF/s of a product as the model's feed-forward layers make it, small enough to be measured in no
/// time; 0: the device does not have the type.
double matrix_gflops(device::Device const& device, model::ModelConfig const& model,
                     std::int64_t microbatch_size, core::DType type);

/// What the plan's layers cost by FLOPs and the measured matrix rates, before any step ran.
planner::Profile estimated_profile(program::Plan const& plan, model::Model const& model,
                                   std::vector<RankFacts> const& ranks);

std::vector<core::DType> automatic_types(std::vector<RankFacts> const& ranks);
std::vector<bool> own_memories(std::vector<RankFacts> const& ranks);

/// The plan offloads something, and no rank has a device memory of its own to take it from.
bool offloads_in_vain(program::Plan const& plan);

/// Throws core::ConfigError (on every rank) when the plan is impossible: not for this model, or in
/// a compute type that a rank's device does not have.
void check_plan(program::Plan const& plan, model::Model const& model,
                std::vector<RankFacts> const& ranks);

/// All ranks of a job lower the same programs; rank 0 proves them for all.
enum class Proof : std::uint8_t { verify, trust };

struct Programs {
    std::optional<program::ProgramSet> train;
    program::ProgramSet evaluate;
    std::vector<std::int64_t> device_workspace_bytes; ///< by rank
};

/// What lowering goes by besides plan, model and schedule.
struct ProgramOptions {
    std::vector<std::int64_t> device_workspace_bytes; ///< by rank
    std::int64_t moments = 2;
    std::optional<program::Costs> costs; ///< of the plan; none: links get the usual buffers
    std::vector<std::int64_t> memory_limit_bytes; ///< of the arena, by rank; empty = none
    std::vector<std::string> device_names; ///< by rank, of devices with a memory of their own
    Proof proof = Proof::verify;
};

/// Workspace that each rank's device needs for the plan; every rank prepares its operations.
/// Collective.
std::vector<std::int64_t> prepare_devices(comm::MpiSession const& mpi, Engine& engine,
                                          program::Plan const& plan, model::Model const& model,
                                          bool adamw);

/// Lowers and verifies: the training step with the orders of `train` (null: none), and the pass of
/// an evaluation. Throws core::ConfigError when a rank's memory does not suffice, and
/// core::ContractViolation with the first problems when a program is not proven (a bug of
/// lowering).
Programs make_programs(program::Plan const& plan, model::Model const& model,
                       program::Schedule const* train, ProgramOptions const& options);

/// The training programs alone.
program::ProgramSet make_train_programs(program::Plan const& plan, model::Model const& model,
                                        program::Schedule const& schedule,
                                        ProgramOptions const& options);

} // namespace evener::app
