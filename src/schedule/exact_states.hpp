// SPDX-License-Identifier: Apache-2.0
#pragma once

// The states of the exact search with the same number of pieces of work decided.

#include "schedule/work_bounds.hpp"

#include <cstdint>
#include <unordered_map>

namespace evener::schedule {

/// A piece of work by lane and kind; its microbatch follows from what was decided before.
struct Decision {
    std::int32_t lane = -1;
    program::WorkKind kind = program::WorkKind::forward;

    std::uint64_t bit() const {
        return std::uint64_t{1} << (4 * static_cast<unsigned>(lane) + static_cast<unsigned>(kind));
    }
};

/// How a state came about, kept for all states to read the schedule off.
struct Step {
    std::int32_t parent = -1; ///< index in steps
    Decision decision;
};

struct State {
    std::size_t values = 0; ///< begin of its times in the layer
    std::int32_t step = -1;
    std::int32_t next = -1;    ///< another state with the same work decided
    std::uint64_t blocked = 0; ///< bits of decisions that may not come next on their rank
    double bound = 0;
    double sum = 0; ///< of the ranks' own bounds: less is better among equal bounds
    bool dropped = false;
};

class StateLayer {
  public:
    /// `lanes` pairs of rank and chunk.
    explicit StateLayer(std::size_t lanes) : lanes_{lanes} {}

    /// Adds the state unless one that is as good is there; drops those that it is as good as. The
    /// number of values follows from the counts.
    void add(std::vector<Frontier::Counts> const& counts, std::vector<double> const& values,
             State state, std::vector<Step>& steps, Step const& step);

    /// Drops states whose bound is at least `limit`, and the worst of more than `width`; the least
    /// bound of the latter, infinity if there are none.
    double select(double limit, std::size_t width);

    std::vector<State> const& states() const { return states_; }
    double const* values(State const& state) const { return values_.data() + state.values; }
    Frontier::Counts const* counts(State const& state) const {
        return counts_.data() + lanes_ * static_cast<std::size_t>(&state - states_.data());
    }
    void clear();

  private:
    std::size_t lanes_;
    std::vector<State> states_;
    std::vector<Frontier::Counts> counts_; ///< [state][lane]
    std::vector<double> values_;
    std::unordered_map<std::uint64_t, std::int32_t> first_; ///< by hash of the counts
};

} // namespace evener::schedule
