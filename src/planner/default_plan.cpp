// SPDX-License-Identifier: Apache-2.0
#include "planner/default_plan.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

namespace evener::planner {

std::vector<std::int64_t> split_by_cost(std::vector<double> const& costs,
                                        std::vector<double> const& speeds) {
    std::size_t const n = costs.size();
    std::size_t const groups = speeds.size();
    EVENER_EXPECT(n >= groups && groups > 0);
    std::vector<double> before(n + 1, 0.0);
    std::partial_sum(costs.begin(), costs.end(), before.begin() + 1);
    // slowest[g][i]: the least possible time of the slowest of groups 0..g that hold entries [0,
    // i).
    double const never = std::numeric_limits<double>::infinity();
    std::vector<std::vector<double>> slowest(groups, std::vector<double>(n + 1, never));
    std::vector<std::vector<std::size_t>> cut(groups, std::vector<std::size_t>(n + 1, 0));
    for (std::size_t i = 1; i <= n; ++i)
        slowest[0][i] = before[i] / speeds[0];
    for (std::size_t g = 1; g < groups; ++g)
        for (std::size_t i = g + 1; i <= n; ++i)
            for (std::size_t j = g; j < i; ++j) {
                double const time =
                    std::max(slowest[g - 1][j], (before[i] - before[j]) / speeds[g]);
                if (time < slowest[g][i]) {
                    slowest[g][i] = time;
                    cut[g][i] = j;
                }
            }
    std::vector<std::int64_t> ends(groups);
    std::size_t end = n;
    for (std::size_t g = groups; g-- > 0;) {
        ends[g] = static_cast<std::int64_t>(end);
        end = cut[g][end];
    }
    return ends;
}

program::Plan default_plan(model::Model const& model, DefaultPlanInput const& input) {
    std::int64_t const ranks = std::ssize(input.rank_speeds);
    std::int64_t const groups = std::min(ranks, model.config().decoder_layers);
    program::Plan plan;
    plan.batch_size = input.batch_size;
    plan.microbatch_size = input.microbatch_size;
    std::vector<double> speeds;
    for (std::int64_t g = 0; g < groups; ++g) {
        program::Group& group = plan.groups.emplace_back();
        group.compute = core::DType::bfloat16;
        double speed = 0;
        for (std::int64_t r = ranks * g / groups; r < ranks * (g + 1) / groups; ++r) {
            auto const rank = static_cast<std::size_t>(r);
            group.ranks.emplace_back(r);
            group.shares.push_back(input.rank_speeds[rank]);
            group.shard_weights.push_back(1);
            speed += input.rank_speeds[rank];
            if (input.compute_types[rank] == core::DType::float32)
                group.compute = core::DType::float32;
        }
        // A share is a ratio; whole per cents are as good as measured and read better in plan.toml.
        for (double& share : group.shares)
            share = std::max(1.0, static_cast<double>(static_cast<int>(100 * share / speed + 0.5)));
        speeds.push_back(speed);
    }
    std::vector<double> costs;
    for (std::int64_t l = 0; l < model.layer_count(); ++l)
        costs.push_back(model.layer(core::LayerId{l}).forward_flops());
    std::int64_t begin = 0;
    std::vector<std::int64_t> const ends = split_by_cost(costs, speeds);
    for (std::size_t g = 0; g < ends.size(); ++g) {
        plan.chunks.push_back({core::GroupId{static_cast<std::int64_t>(g)}, {begin, ends[g]}});
        begin = ends[g];
    }
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

} // namespace evener::planner
