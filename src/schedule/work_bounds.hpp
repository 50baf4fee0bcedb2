// SPDX-License-Identifier: Apache-2.0
#pragma once

// The least time a schedule can take, given what has been decided of it.
//
// Where microbatches keep their order within each kind of work (forward, input half, weight half) of
// a rank and chunk, much more can be said. Where microbatches are all alike that is no restriction:
// sort the starts of each kind on each rank and chunk and give them to the microbatches in order;
// whatever had arrived and whatever was freed by then, as many have. A fused backward counts as an
// input half and then a weight half, whosever that is.
//
// Heads: the earliest start of every piece of work, from the ways messages take, the work that its
// rank must do before, and the memory that must be freed first. Tails: likewise the least time from
// its end to the end of the step. Bound of a rank: its work with heads and tails on one machine
// that may interrupt work (Jackson's preemptive schedule); the largest over all ranks counts.

#include "schedule/work_lanes.hpp"

namespace evener::schedule {

/// What has been decided.
struct Frontier {
    /// Pieces of work of a lane that are decided, from its first microbatch on.
    struct Counts {
        std::int32_t forwards = 0;
        std::int32_t inputs = 0;
        std::int32_t weights = 0;

        friend bool operator==(Counts const&, Counts const&) = default;
    };
    std::vector<Counts> lanes;
    std::vector<double> free;           ///< by rank: end of its last decided work
    std::vector<double> ports;          ///< by port: end of its last decided message
    std::vector<double> forward_ready;  ///< by cell: latest arrival from decided forwards
    std::vector<double> backward_ready; ///< by cell: likewise, its own forward's end included
};

/// Work with earliest start and least time after its end.
struct Job {
    double head = 0;
    double seconds = 0;
    double tail = 0;
};

/// Least end of all jobs on one machine that may interrupt them. Reorders them.
double preemptive_bound(std::vector<Job>& jobs);

/// Earliest starts by cell (those of decided work are not set), and room to compute them.
struct Heads {
    std::vector<double> forward;
    std::vector<double> input;
    std::vector<double> weight;

    double bound_sum = 0; ///< of the ranks' own bounds

    std::vector<double> streams;                     ///< end of the last message
    std::vector<double> forward_sums;                ///< by lane: undecided seconds so far
    std::vector<double> input_sums;                  ///< likewise
    std::vector<double> weight_sums;                 ///< likewise
    std::vector<double> kept_sums;                   ///< by lane: bytes of cells so far
    std::vector<double> backward_sums;               ///< by cell: both halves, itself included
    std::vector<std::pair<double, double>> releases; ///< seconds, bytes
    std::vector<Job> jobs;
};

class WorkBounds {
  public:
    /// Graph and lanes must outlive the bounds. Without `in_order` the bounds hold for orders in
    /// which microbatches overtake each other too, and only with nothing decided.
    WorkBounds(WorkGraph const& graph, WorkLanes const& lanes, bool in_order);

    Frontier nothing_decided() const;

    /// Least end of a schedule that goes on from the frontier; sets the heads.
    double bound(Frontier const& frontier, Heads& heads) const;

    /// Least end by what wires carry, from the heads of an empty frontier.
    double wire_bound(Heads& heads) const;

  private:
    struct Rests;

    void make_windows();
    void make_tails();
    void set_backward_tails(std::int32_t cell, Rests& rests);
    void set_forward_tail(std::int32_t cell, Rests& rests);
    void reset(Heads& heads) const;
    void set_forward(Frontier const& frontier, Heads& heads, std::int32_t cell) const;
    void set_backward(Frontier const& frontier, Heads& heads, std::int32_t cell) const;
    double latest_arrival(Frontier const& frontier, Heads& heads, std::int32_t cell,
                          bool forward) const;
    double memory_head(Frontier const& frontier, Heads& heads, std::int32_t cell) const;
    double release_head(Frontier const& frontier, Heads const& heads, std::int32_t cell) const;
    double rank_bound(Frontier const& frontier, Heads& heads, std::size_t rank) const;

    WorkGraph const& graph_;
    WorkLanes const& lanes_;
    bool in_order_;
    /// By cell, on ranks with one lane: cells of the lane that must be freed before its forward.
    std::vector<std::int32_t> freed_before_;
    /// Likewise: place of the first forward that needs the cell freed, or the number of cells.
    std::vector<std::int32_t> unlocks_;
    std::vector<double> forward_tails_; ///< by cell
    std::vector<double> input_tails_;
    std::vector<double> weight_tails_;
};

/// Least seconds of any schedule of the graph within its memory limits.
double lower_bound(WorkGraph const& graph);

} // namespace evener::schedule
