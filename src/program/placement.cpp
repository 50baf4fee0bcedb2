// SPDX-License-Identifier: Apache-2.0
#include "program/placement.hpp"

#include <algorithm>

namespace evener::program {

std::vector<core::GroupId> placed_groups(Placement placement, std::int64_t groups,
                                         std::int64_t chunks_per_group) {
    std::vector<core::GroupId> result;
    for (std::int64_t turn = 0; turn < chunks_per_group; ++turn)
        for (std::int64_t g = 0; g < groups; ++g)
            result.emplace_back(placement == Placement::v && turn % 2 == 1 ? groups - 1 - g : g);
    return result;
}

std::vector<Chunk> make_chunks(std::vector<core::GroupId> const& groups,
                               std::vector<std::int64_t> const& layers) {
    EVENER_EXPECT(groups.size() == layers.size());
    std::vector<Chunk> chunks;
    std::int64_t begin = 0;
    for (std::size_t c = 0; c < groups.size(); ++c) {
        chunks.push_back({groups[c], {begin, begin + layers[c]}});
        begin += layers[c];
    }
    return chunks;
}

std::vector<Chunk> place(Placement placement, std::vector<std::int64_t> const& group_layers,
                         std::int64_t chunks_per_group) {
    std::vector<core::GroupId> const groups =
        placed_groups(placement, std::ssize(group_layers), chunks_per_group);
    std::vector<double> const even(static_cast<std::size_t>(chunks_per_group), 1.0);
    std::vector<std::int64_t> layers;
    for (std::size_t c = 0; c < groups.size(); ++c)
        layers.push_back(
            largest_remainder(group_layers[groups[c].index()], even)[c / group_layers.size()]);
    return make_chunks(groups, layers);
}

bool is_placed(Plan const& plan, Placement placement, std::int64_t chunks_per_group) {
    std::vector<std::int64_t> layers(plan.groups.size());
    for (Chunk const& chunk : plan.chunks)
        layers[chunk.group.index()] += chunk.layers.size();
    std::vector<Chunk> const placed = place(placement, layers, chunks_per_group);
    return std::equal(
        placed.begin(), placed.end(), plan.chunks.begin(), plan.chunks.end(),
        [](Chunk const& a, Chunk const& b) { return a.group == b.group && a.layers == b.layers; });
}

} // namespace evener::program
