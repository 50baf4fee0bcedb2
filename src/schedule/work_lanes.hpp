// SPDX-License-Identifier: Apache-2.0
#pragma once

// The cells of a work graph in the orders in which bounds and exact search go through them.

#include "schedule/work_graph.hpp"

namespace evener::schedule {

/// A message that a cell waits for.
struct LaneInput {
    std::int32_t cell = -1;   ///< that sends it
    std::int32_t stream = -1; ///< -1 = takes no wire
    double seconds = 0;
    double latency_seconds = 0;
};

struct WorkLanes {
    /// The cells of a rank and chunk, ascending microbatches.
    struct Lane {
        std::int32_t rank = 0;
        std::int32_t chunk = 0;
        std::vector<std::int32_t> cells;
    };
    /// Messages of one kind from one lane over one wire: they keep the order of microbatches.
    struct Stream {
        std::int32_t port = 0;
        std::int32_t lane = 0;
        bool forward = true;
    };
    /// A wire as one rank uses it: the rank's messages take it in the order of its work.
    struct Port {
        std::int32_t rank = 0;
        std::int32_t wire = 0;

        friend bool operator==(Port const&, Port const&) = default;
    };

    std::vector<Lane> lanes;
    std::vector<std::vector<std::int32_t>> lanes_of_ranks; ///< ascending chunks
    std::vector<Stream> streams;
    std::vector<Port> ports;
    std::vector<std::vector<LaneInput>> forward_inputs;  ///< by cell
    std::vector<std::vector<LaneInput>> backward_inputs; ///< by cell

    std::vector<std::int32_t> lane_of;  ///< by cell
    std::vector<std::int32_t> place_of; ///< by cell: index in its lane
    /// All cells, microbatch by microbatch, ascending chunks within.
    std::vector<std::vector<std::int32_t>> microbatches;

    /// By cell: seconds of the halves, cut so that a fused backward takes no less than both.
    std::vector<double> input_seconds;
    std::vector<double> weight_seconds;

    explicit WorkLanes(WorkGraph const& graph);

    /// Whether all microbatches take the same ranks, times and memory.
    bool microbatches_alike(WorkGraph const& graph) const;
};

} // namespace evener::schedule
