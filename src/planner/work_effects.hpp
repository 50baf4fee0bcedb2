// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a calibration shows of where a computation stands in the step: behind the same computation of
// the same chunk its code and weights are in the caches (program::repeats), and while other ranks of
// the node compute it takes longer. Under 1F1B the warm-up and the cool-down show both.

#include "planner/profile.hpp"

namespace evener::planner {

class WorkEffects {
  public:
    /// `nodes` names each rank's node.
    WorkEffects(std::vector<CalibrationRun> const& runs, std::vector<int> const& nodes);

    /// See program::Costs. A rank whose neighbours were always busy or always idle gets the median
    /// of the others; 0 where none shows any.
    double contention(std::size_t rank) const { return contention_[rank]; }
    /// Likewise, for other schedules; 1 where no rank repeats such work. The square root of what the
    /// calibration shows: its few repetitions stand at the ends of the step, with few microbatches in
    /// flight; a schedule that repeats much keeps many, which crowd the caches. Measured: with the
    /// whole factors prediction_bench finds GPipe and breadth-first 5 % too short, without any 4 to 6 %
    /// too long.
    program::WorkFactors repeat(std::size_t rank) const;
    /// The mean seconds of a rank's work of one kind over what it takes alone and not repeated.
    double mean(std::size_t rank, program::WorkKind kind) const;

  private:
    /// One piece of work in one step.
    struct Sample {
        program::Work work; ///< of any microbatch
        program::Work before;
        bool first = false;    ///< no work stands before it
        bool repeated = false; ///< `before` is the same
        double neighbours = 0; ///< that were busy
        double seconds = 0;
    };

    void collect(CalibrationRun const& run, std::vector<int> const& nodes);
    double find_contention(std::size_t rank, double all_neighbours) const;
    double find_repeat(std::size_t rank, program::WorkKind kind) const;

    std::vector<std::vector<Sample>> samples_; ///< [rank]
    std::vector<double> contention_;
    std::vector<program::WorkFactors> repeat_; ///< in the calibration
};

} // namespace evener::planner
