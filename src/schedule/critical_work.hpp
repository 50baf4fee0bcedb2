// SPDX-License-Identifier: Apache-2.0
#pragma once

// The critical path of an evaluated schedule: the chain of work that ends last.

#include "schedule/work_graph.hpp"

namespace evener::schedule {

/// A piece of work in a rank's order.
struct Place {
    std::size_t rank = 0;
    std::size_t index = 0;
    bool waits_for_rank = false; ///< it starts when the work before it in the order ends
};

/// From the last work back to one that starts at 0. Where messages queue for a wire, the path goes
/// on with the sender of the message waited for, as if the wire were its own.
std::vector<Place> critical_path(WorkGraph const& graph, program::Schedule const& schedule,
                                 Evaluation const& run);

} // namespace evener::schedule
