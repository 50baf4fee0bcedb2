// SPDX-License-Identifier: Apache-2.0
#pragma once

// What can come next in a state of the exact search, and the states that follow.

#include "schedule/exact_states.hpp"

#include <functional>

namespace evener::schedule {

class ExactBranching {
  public:
    /// Graph and lanes must outlive it.
    ExactBranching(WorkGraph const& graph, WorkLanes const& lanes);

    std::size_t work_count() const { return 3 * graph_.cells.size(); }
    WorkBounds const& bounds() const { return bounds_; }

    /// A state that follows from another.
    struct Next {
        Decision decision;
        std::uint64_t blocked = 0; ///< bits of decisions that may not come next on their rank
        double bound = 0;          ///< its least end
        double bound_sum = 0;      ///< sum of the ranks' own bounds
    };
    /// Called with each; the frontier's times are raised to what is possible.
    using Follow = std::function<void(Frontier const&, Next const&)>;

    /// Branches on states whose least end is below `limit`. Changes the frontier.
    void expand(Frontier& frontier, std::uint64_t blocked, double limit, Follow const& follow);

    /// The times of a frontier that differ between states with the same work decided.
    void write_values(Frontier const& frontier, std::vector<double>& values) const;
    void read_values(Frontier& frontier, double const* values) const;

  private:
    struct Output {
        std::int32_t cell = 0;
        std::int32_t port = -1;
        double seconds = 0;
        double latency_seconds = 0;
    };
    struct Option {
        Decision decision;
        std::int32_t cell = 0;
        double start = 0;
        double end = 0;
    };

    template <class Call>
    void for_each_pending(Frontier const& frontier, Call const& call) const;
    bool any_decided(Frontier const& frontier, std::vector<LaneInput> const& inputs,
                     std::int32_t Frontier::Counts::*counted) const;
    bool all_decided(Frontier const& frontier, std::vector<LaneInput> const& inputs,
                     std::int32_t Frontier::Counts::*counted) const;

    double held_bytes(Frontier const& frontier, std::size_t rank) const;
    void add_options(Frontier const& frontier, std::int32_t lane);
    bool may_insert(Option const& option) const;
    void apply(Option const& option);
    void raise_times();
    std::uint64_t blocked_after(std::vector<Option> const& options, Option const& chosen,
                                std::uint64_t blocked, Frontier const& frontier) const;
    std::uint64_t rank_bits(std::int32_t rank) const;

    WorkGraph const& graph_;
    WorkLanes const& lanes_;
    WorkBounds bounds_;
    std::vector<std::vector<Output>> forward_outputs_;  ///< by cell
    std::vector<std::vector<Output>> backward_outputs_; ///< by cell
    std::vector<bool> one_stream_;  ///< by port: its messages are all of one lane and kind
    std::vector<bool> memory_free_; ///< by rank: the limit never binds
    std::vector<bool> may_fuse_;    ///< by lane
    std::vector<bool> alike_;       ///< by lane: it makes no difference whose weight half is next
    double least_ = 0;              ///< of the whole step

    std::vector<Option> options_;
    Frontier child_;
    Heads heads_;
};

} // namespace evener::schedule
