// SPDX-License-Identifier: Apache-2.0
#pragma once

// A training job: one plain struct per TOML table, with the defaults. What each key means and which
// values it may have stands once, in schema.cpp (printed as inputs/reference.toml). A Job from
// parse_job is resolved and valid: presets applied, and no field marked "resolved" is 0 or empty.

#include "core/ids.hpp"
#include "job/choices.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace evener::job {

struct Run {
    std::string name; ///< resolved: the job file's name without ".toml"
    std::string out;  ///< resolved: run folder, "runs/<name>"
    std::uint64_t seed = 1;
    Devices devices = Devices::automatic;
    std::int64_t threads = 0; ///< compute threads of a rank; 0 = its cpuset over the ranks on it
    Nccl nccl = Nccl::automatic;
    CudaAwareMpi cuda_aware_mpi = CudaAwareMpi::off;
    std::string time_limit; ///< see parse_duration; empty = the Slurm job's end, if there is one

    std::int64_t watchdog_seconds = 0; ///< 0 = ten steps, at least 60; -1 = off

    bool operator==(Run const&) const = default;
};

struct Model {
    Preset preset = Preset::none;
    std::int64_t vocabulary = 0;      ///< resolved
    std::int64_t hidden_size = 0;     ///< resolved
    std::int64_t layers = 0;          ///< resolved: decoder layers
    std::int64_t heads = 0;           ///< resolved: query heads
    std::int64_t kv_heads = 0;        ///< resolved: key and value heads; divides heads
    std::int64_t head_size = 0;       ///< resolved: even
    std::int64_t ffn_size = 0;        ///< resolved
    std::int64_t sequence_length = 0; ///< resolved: tokens of a sequence
    double rope_theta = 10000.0;
    double norm_epsilon = 1e-5;
    bool tied_embeddings = false;
    bool attention_bias = false; ///< of the query, key and value projections
    bool attention_output_bias = false;
    bool mlp_bias = false;
    double init_std = 0.02;
    std::string init_from; ///< checkpoint or run folder; empty = random weights

    bool operator==(Model const&) const = default;
};

struct Data {
    std::vector<std::string> train;      ///< paths or globs, at least one
    std::vector<std::string> validation; ///< may be empty
    Format format = Format::automatic;
    bool shuffle = true;
    std::int64_t ignore_token = -1; ///< targets equal to it are masked; -1 = none

    bool operator==(Data const&) const = default;
};

struct Train {
    std::int64_t steps = 0;              ///< resolved
    std::int64_t batch_size = 32;        ///< sequences per step, over all ranks
    std::int64_t microbatch_size = 0;    ///< resolved: sequences; need not divide batch_size
    std::int64_t validate_every = 0;     ///< steps; 0 = never
    std::int64_t validation_batches = 0; ///< 0 = all
    OnNonfinite on_nonfinite = OnNonfinite::stop;
    std::int64_t nonfinite_limit = 10; ///< skipped steps in a row before the job stops

    bool operator==(Train const&) const = default;
};

struct Optimizer {
    OptimizerKind kind = OptimizerKind::adamw;
    double learning_rate = 3e-4;
    double min_learning_rate = 0.0; ///< where the decay ends
    std::int64_t warmup_steps = 0;
    Decay schedule = Decay::cosine;
    std::int64_t decay_steps = 0; ///< resolved: step at which the decay ends, counted from step 0
    double beta1 = 0.9;
    double beta2 = 0.95;
    double epsilon = 1e-8;
    double weight_decay = 0.1; ///< decoupled; not on norms and biases
    double clip_norm = 1.0;    ///< global gradient norm; 0 = off

    bool operator==(Optimizer const&) const = default;
};

struct Precision {
    Compute compute = Compute::automatic;
    Compute boundary = Compute::automatic; ///< wire type between groups; auto = the narrower

    bool operator==(Precision const&) const = default;
};

/// What lies in the host's pinned memory while a GPU does not need it.
struct Offload {
    bool parameters = false;
    bool optimizer = false;
    bool activations = false;

    bool any() const { return parameters || optimizer || activations; }
    bool operator==(Offload const&) const = default;
};

/// A stage group: who holds a run of the model's layers, and who does how much.
struct Group {
    std::vector<core::RankId> ranks; ///< in the order of shares and shard_weights
    /// Entries of the model's layer list, see layer_count; 0 where the plan lists its chunks.
    std::int64_t layers = 0;
    std::vector<double> shares; ///< resolved: weight per rank, zero allowed, not all zero
    Dispatch dispatch = Dispatch::shares;
    std::vector<core::RankId> deal;    ///< rank of each microbatch; empty = by the shares
    std::vector<double> shard_weights; ///< resolved: size of each rank's optimizer shard
    GroupCompute compute = GroupCompute::as_job;
    std::optional<Offload> offload =
        {}; ///< resolved: what this group offloads, else as the plan says

    bool operator==(Group const&) const = default;
};

/// A run of the model's layers on one group, by its place in the list of groups.
struct Chunk {
    std::int64_t group = 0;
    std::int64_t layers = 0;
    std::optional<bool> recompute = {}; ///< resolved: else as the plan says

    bool operator==(Chunk const&) const = default;
};

struct Plan {
    Schedule schedule = Schedule::one_f_one_b;
    std::string schedule_file; ///< CSV of the orders instead; empty = none
    std::int64_t chunks_per_group = 1;
    Placement placement = Placement::round_robin;
    bool split_backward = false;      ///< separate BackwardInput and BackwardWeight instructions
    bool recompute = false;           ///< keep the chunks' inputs only, and compute forward twice
    bool interleave_updates = false;  ///< update weights during the backward pass
    std::int64_t receive_buffers = 0; ///< per link direction; 0 = the smallest without stalls
    double memory_gib = 0;            ///< of a rank's arena; 0 = what a GPU has free, else no limit
    std::string profile;              ///< JSON of `evener profile`; empty = estimated
    bool replan = false;              ///< a resume makes a new plan instead of out/plan.toml
    OnMismatch on_mismatch = OnMismatch::stop;
    Offload offload;
    std::vector<Group> groups; ///< empty = planned at start
    std::vector<Chunk> chunks; ///< in model order; empty = the groups' layers, by placement

    bool operator==(Plan const&) const = default;
};

struct Checkpoint {
    std::int64_t every = 0;         ///< steps; 0 = only at the end
    std::int64_t every_seconds = 0; ///< the same by the clock, beside it; 0 = off
    std::int64_t keep = 2;          ///< newest checkpoints kept
    Layout layout = Layout::per_node;
    std::int64_t keep_every = 0; ///< and those of steps that are multiples of it; 0 = no others
    std::string resume = "auto"; ///< "auto", "never" or the path of a checkpoint
    bool verify_on_load = true;

    bool operator==(Checkpoint const&) const = default;
};

struct Log {
    LogLevel level = LogLevel::info;
    std::int64_t step_every = 1; ///< steps between two step lines
    std::string gradients;       ///< writes each step's reduced gradients here; empty = off
    Progress progress = Progress::automatic;
    std::vector<std::int64_t> trace_steps; ///< steps whose instructions are timed and drawn

    bool operator==(Log const&) const = default;
};

struct Job {
    Run run;
    Model model;
    Data data;
    Train train;
    Optimizer optimizer;
    Precision precision;
    Plan plan;
    Checkpoint checkpoint;
    Log log;

    bool operator==(Job const&) const = default;
};

/// Whether every parameter has two moments.
inline bool has_adamw(Job const& job) {
    return job.optimizer.kind == OptimizerKind::adamw;
}

/// Entries of the model's layer list: embedding, then attention and feed-forward of each decoder
/// layer, then the head. A plan's groups take consecutive entries of it.
constexpr std::int64_t layer_count(Model const& model) {
    return 2 * model.layers + 2;
}

/// What a group computes in, before `automatic` is measured.
constexpr Compute compute_of(Precision const& precision, Group const& group) {
    switch (group.compute) {
    case GroupCompute::automatic:
        return Compute::automatic;
    case GroupCompute::float32:
        return Compute::float32;
    case GroupCompute::bfloat16:
        return Compute::bfloat16;
    case GroupCompute::as_job:
        break;
    }
    return precision.compute;
}

} // namespace evener::job
