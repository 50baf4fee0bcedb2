// SPDX-License-Identifier: Apache-2.0
#include "support/random_costs.hpp"

namespace evener::support {

program::Costs random_costs(Random& random, program::Plan const& plan, Wires wires) {
    auto const seconds = [&](double most) {
        return most * (0.5 + 0.5 * static_cast<double>(random.integer(1, 1 << 30)) / (1 << 30));
    };
    program::Costs costs = program::uniform_costs(plan, {});
    for (auto& chunks : costs.chunks)
        for (program::ChunkSeconds& chunk : chunks) {
            chunk = {seconds(1), seconds(1), seconds(1), 0};
            chunk.backward = chunk.backward_input + chunk.backward_weight * 0.9;
        }
    std::int64_t const ranks = plan.rank_count();
    if (wires == Wires::free)
        return costs;
    costs.network = program::uniform_network(ranks, {});
    for (program::Wire& wire : costs.network.wires)
        wire = {seconds(2), wires == Wires::latency ? 0 : seconds(0.01)};
    if (wires == Wires::shared)
        for (std::int32_t& route : costs.network.routes)
            if (route >= 0 && random.chance(25))
                route = static_cast<std::int32_t>(random.index(costs.network.wires.size()));
    return costs;
}

} // namespace evener::support
