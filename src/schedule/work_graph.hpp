// SPDX-License-Identifier: Apache-2.0
#pragma once

// The work of a training step without programs: what schedules are searched on. A cell is what one
// rank does of one microbatch of one chunk: a forward, then a backward, whole or in two halves.
// Cells wait for cells of the neighbouring chunks whose sequences overlap theirs. Receive and send
// buffers are not limited here; lowering gives a schedule the buffers it needs.

#include "program/costs.hpp"
#include "program/timeline.hpp"

#include <limits>
#include <span>
#include <vector>

namespace evener::schedule {

/// What a cell's forward (or backward) waits for besides its own rank's order.
struct Arrival {
    std::int32_t cell = -1; ///< whose forward (or backward) it is
    std::int32_t wire = -1; ///< -1: there at once
    double seconds = 0;     ///< for which it occupies the wire
    double latency_seconds = 0;
};

struct Cell {
    core::RankId rank;
    core::ChunkId chunk;
    core::MicrobatchId microbatch;
    program::ChunkSeconds seconds;
    /// From the start of the forward to the end of the (weight half of the) backward: the chunk's
    /// inputs where it is recomputed, nothing where it is offloaded.
    double kept_bytes = 0;
    /// From the start of the input half to the end of the weight half; what is computed again or
    /// comes back for the input half stays, too.
    double kept_for_weights_bytes = 0;
    std::vector<Arrival> forward_inputs;
    std::vector<Arrival> backward_inputs; ///< besides its own forward
};

/// The other end of an Arrival.
struct Departure {
    std::int32_t cell = -1; ///< that waits
    Arrival arrival;
};

struct WorkGraph {
    std::vector<Cell> cells;
    std::int64_t rank_count = 0;
    std::int64_t wire_count = 0;
    std::vector<double> memory_limits; ///< by rank, for the sum of what its cells keep

    /// Index of the cell, or -1 where the rank has no part of it. O(1) after index().
    std::int32_t find(core::RankId rank, core::ChunkId chunk, core::MicrobatchId microbatch) const;
    /// Who waits for the cell's forward (or backward), ascending cells.
    std::span<Departure const> forward_outputs(std::int32_t cell) const;
    std::span<Departure const> backward_outputs(std::int32_t cell) const;

    /// Must be called after the last change of `cells`.
    void index();

  private:
    /// Departures of all cells one after the other; those of cell i begin at begins[i].
    struct Outputs {
        std::vector<Departure> all;
        std::vector<std::int32_t> begins;
    };
    static Outputs outputs_of(std::vector<Cell> const& cells, std::vector<Arrival> Cell::*inputs);
    static std::span<Departure const> at(Outputs const& outputs, std::int32_t cell);

    Outputs forward_;
    Outputs backward_;
    std::int64_t chunk_count_ = 0;
    std::int64_t microbatch_count_ = 0;
    std::vector<std::int32_t> places_; ///< [rank][chunk][microbatch]
};

inline constexpr double no_memory_limit = std::numeric_limits<double>::infinity();

/// The graph of a plan: bytes from the model's layouts, times from the costs. `memory_limits` by
/// rank for what the cells keep; empty = none.
WorkGraph make_work_graph(program::Plan const& plan, model::Model const& model,
                          program::Costs const& costs, std::vector<double> memory_limits = {});

/// A graph without a model, for schedules on paper: every cell keeps one unit per chunk of its
/// group (`1 / v`) from forward to the end of its backward, and every message has `message_bytes`.
WorkGraph make_work_graph(program::Plan const& plan, program::Costs const& costs,
                          double message_bytes, std::vector<double> memory_limits = {});

/// One run of a schedule.
struct Evaluation {
    double seconds = 0;                            ///< end of the last piece of work
    std::vector<std::vector<program::Span>> spans; ///< [rank][position in the rank's order]
    std::vector<double> peak_bytes;                ///< by rank, of what cells keep
    std::vector<double> busy_seconds;              ///< by rank

    /// Idle seconds between a rank's first start and last end.
    double bubble(core::RankId rank) const;
    /// From a rank's first start to its last end.
    double span(core::RankId rank) const;
};

/// Runs the orders: a rank starts its next work when it is free and all inputs have arrived;
/// messages take their wire in the order in which they get ready (ties: lower cell first). Throws
/// core::ConfigError that names rank and work when the orders block or when one misses work,
/// repeats it or has it from elsewhere.
Evaluation evaluate(WorkGraph const& graph, program::Schedule const& schedule);

} // namespace evener::schedule
