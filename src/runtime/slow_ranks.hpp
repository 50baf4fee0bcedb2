// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ranks that compute far slower than the others do, each measured by its own prediction: unequal
// machines are no fault, one that became slow is.

#include "comm/communicator.hpp"
#include "program/timeline.hpp"

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace evener::runtime {

struct ComputePrediction {
    std::vector<double> seconds; ///< of a step's computations, by rank; empty: unknown
    std::string source;          ///< "by FLOPs over matrix rates"
    double factor = 1.5;         ///< above the others' ratio it is far
};

/// From a predicted step. What was not `measured` before is only roughly right, and differs between
/// kinds of layers: then the factor is 3.
ComputePrediction compute_prediction(program::ProgramSet const& set,
                                     program::Timeline const& predicted, std::string source,
                                     bool measured);

/// What ranks took for their computations and for the whole step.
struct RankSeconds {
    double compute = 0;
    double step = 0;
};

/// Ranks whose ratio of measured to predicted time is more than `factor` times the median of the
/// others' and which lose more than a tenth of the step by that.
std::vector<int> slow_ranks(std::vector<RankSeconds> const& measured,
                            ComputePrediction const& prediction);

class SlowRanks {
  public:
    static constexpr std::size_t steps = 20; ///< between two comparisons

    SlowRanks(ComputePrediction prediction, std::vector<std::string> hosts);

    /// Once per step on every rank.
    void note(double compute_seconds, double step_seconds);
    /// Whether all ranks have to call compare now.
    bool due() const { return seconds_.size() == steps; }
    /// Collective. The line that names ranks which have become slow since the last comparison, by
    /// the median of the steps; else "". One that comes and goes is named every ten minutes at most.
    std::string compare(comm::Communicator const& world);

  private:
    ComputePrediction prediction_;
    std::vector<std::string> hosts_;
    std::vector<RankSeconds> seconds_;
    std::set<int> slow_;                                         ///< at the last comparison
    std::map<int, std::chrono::steady_clock::time_point> named_; ///< last
};

} // namespace evener::runtime
