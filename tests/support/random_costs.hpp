// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random durations and networks for a plan. No two durations are equal, so that nothing happens at
// the same time by accident.

#include "program/costs.hpp"
#include "support/random_plan.hpp"

namespace evener::support {

enum class Wires {
    free,      ///< messages take no time
    latency,   ///< a wire per pair of ranks, without a bandwidth
    bandwidth, ///< a wire per pair with latency and bandwidth
    shared,    ///< the same, and sometimes one for several pairs
};

/// Computations of about a second; wires so slow that they matter.
program::Costs random_costs(Random& random, program::Plan const& plan, Wires wires);

} // namespace evener::support
