// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a plan's work costs in time: seconds of computations by rank and chunk, copies between a
// device and pinned memory, and the network between ranks. Measured by a calibration or estimated;
// never taken from the run they predict.

#include "program/program.hpp"
#include "program/schedule.hpp"

#include <optional>
#include <vector>

namespace evener::program {

/// Seconds of one chunk's work on one rank's part of a whole microbatch.
struct ChunkSeconds {
    double forward = 0;
    double backward_input = 0;
    double backward_weight = 0;
    double backward = 0; ///< both in one instruction

    double of(WorkKind kind) const;
    friend bool operator==(ChunkSeconds const&, ChunkSeconds const&) = default;
};

/// By what a computation's seconds are multiplied; like ChunkSeconds.
struct WorkFactors {
    double forward = 1;
    double backward_input = 1;
    double backward_weight = 1;
    double backward = 1;

    double of(WorkKind kind) const;
    friend bool operator==(WorkFactors const&, WorkFactors const&) = default;
};

/// A one-way path that carries one message at a time: a message of b bytes takes the first gap of
/// b * seconds_per_byte at or after the moment it is ready, and arrives latency_seconds after it
/// has left.
struct Wire {
    double latency_seconds = 0;
    double seconds_per_byte = 0;
};

/// Which wire each ordered pair of ranks uses. Pairs with the same wire queue for it: a shared
/// uplink. The two directions between ranks may use different wires.
struct Network {
    std::int64_t rank_count = 0;
    std::vector<Wire> wires;
    std::vector<std::int32_t> routes; ///< [src * rank_count + dst]; -1 = takes no time

    std::int32_t wire_between(core::RankId src, core::RankId dst) const {
        return routes.empty()
                   ? -1
                   : routes[src.index() * static_cast<std::size_t>(rank_count) + dst.index()];
    }
};

/// No message takes time.
Network free_network(std::int64_t rank_count);

/// Every ordered pair of ranks has a wire of its own like this one.
Network uniform_network(std::int64_t rank_count, Wire const& wire);

/// A copy of b bytes takes latency_seconds + b * seconds_per_byte.
struct CopyRate {
    double latency_seconds = 0;
    double seconds_per_byte = 0;

    double seconds(std::int64_t bytes) const {
        return latency_seconds + static_cast<double>(bytes) * seconds_per_byte;
    }
    friend bool operator==(CopyRate const&, CopyRate const&) = default;
};

/// Of one rank. Copies in both directions at once do not slow each other down.
struct CopyRates {
    CopyRate in;  ///< from pinned memory to the device
    CopyRate out; ///< back

    friend bool operator==(CopyRates const&, CopyRates const&) = default;
};

struct Costs {
    std::vector<std::vector<ChunkSeconds>> chunks; ///< [rank][chunk]; 0 where it has no work
    /// Of computations that repeat the one before (see repeats), by rank: the same code on the same
    /// weights again finds them in the caches.
    std::vector<WorkFactors> repeat;
    /// By how much of itself a computation takes longer for each other rank of its node that computes
    /// all the while, by rank; what stands above is for a rank alone.
    std::vector<double> contention;
    std::vector<int> nodes; ///< which node a rank is on, any number
    /// Seconds per float32 element of a shard, by rank.
    std::vector<double> measure_seconds_per_element;
    std::vector<double> update_seconds_per_element;
    std::vector<CopyRates> copies; ///< by rank
    Network network;
};

/// The same seconds for every rank and chunk of the plan, free updates, copies and messages.
Costs uniform_costs(Plan const& plan, ChunkSeconds const& seconds);

/// Whether a Forward of the training step runs layers: that of the last chunk does not where the
/// plan recomputes it, since nobody needs its output.
bool forward_computes(Plan const& plan, core::ChunkId chunk);

/// Seconds of one piece of work of a rank with all neighbours busy, wherever it stands; a smaller last microbatch takes its part
/// of a whole one.
/// Of a chunk that is recomputed, the backward (or its input half) begins with a forward.
double work_seconds(Costs const& costs, Plan const& plan, core::RankId rank, Work const& work);

/// The piece of work that an instruction is, if it is one.
std::optional<Work> work_of(Operation const& operation);

/// Whether chunks' seconds are what it takes: a piece of work, or a Recompute.
bool computes_layers(Operation const& operation);

/// By instruction: whether it is a forward, or a backward or the same half of one, right behind the
/// same of the same chunk: nothing else of the program is computed between them.
std::vector<bool> repeats(Program const& program);

/// Seconds of every computation and copy, [rank][instruction]; 0 for the other queues, whose times
/// follow from the network. Evaluation and Recompute count as Forward.
using InstructionSeconds = std::vector<std::vector<double>>;
InstructionSeconds seconds_alone(Costs const& costs, ProgramSet const& set);
/// The same, of computations while all other ranks of the node compute, too; schedule/contention.hpp
/// has what really meets.
InstructionSeconds instruction_seconds(Costs const& costs, ProgramSet const& set);

} // namespace evener::program
