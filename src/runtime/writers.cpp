// SPDX-License-Identifier: Apache-2.0
#include "runtime/writers.hpp"

#include "core/error.hpp"

#include <algorithm>
#include <map>

namespace evener::runtime {

namespace {

struct Node {
    std::vector<int> ranks;
    std::int64_t bytes = 0;
    int writer = -1; ///< none of its ranks may write
};

/// By lowest rank.
std::map<int, Node> nodes_of(Savers const& savers) {
    std::map<int, Node> nodes;
    for (std::size_t r = 0; r < savers.node.size(); ++r) {
        Node& node = nodes[savers.node[r]];
        auto const rank = static_cast<int>(r);
        node.ranks.push_back(rank);
        node.bytes += savers.bytes[r];
        if (node.writer < 0 && (savers.may_write.empty() || savers.may_write[r]))
            node.writer = rank;
    }
    return nodes;
}

} // namespace

std::vector<Writer> assign_writers(Savers const& savers) {
    EVENER_EXPECT(savers.node.size() == savers.bytes.size());
    EVENER_EXPECT(savers.may_write.empty() || savers.may_write.size() == savers.node.size());
    std::vector<Writer> writers;
    std::vector<Node> blind;
    for (auto const& [lowest, node] : nodes_of(savers)) {
        if (node.writer < 0)
            blind.push_back(node);
        else
            writers.push_back({node.writer, node.ranks, node.bytes});
    }
    EVENER_EXPECT(!writers.empty());
    std::stable_sort(blind.begin(), blind.end(),
                     [](Node const& a, Node const& b) { return a.bytes > b.bytes; });
    for (Node const& node : blind) {
        auto const least =
            std::min_element(writers.begin(), writers.end(),
                             [](Writer const& a, Writer const& b) { return a.bytes < b.bytes; });
        least->sources.insert(least->sources.end(), node.ranks.begin(), node.ranks.end());
        least->bytes += node.bytes;
    }
    for (Writer& writer : writers)
        std::sort(writer.sources.begin(), writer.sources.end());
    std::sort(writers.begin(), writers.end(),
              [](Writer const& a, Writer const& b) { return a.rank < b.rank; });
    return writers;
}

std::size_t writer_of(std::vector<Writer> const& writers, int rank) {
    auto const found = std::find_if(writers.begin(), writers.end(), [&](Writer const& writer) {
        return std::binary_search(writer.sources.begin(), writer.sources.end(), rank);
    });
    EVENER_EXPECT(found != writers.end());
    return static_cast<std::size_t>(found - writers.begin());
}

std::vector<std::int64_t> snapshot_bytes(Savers const& savers) {
    std::vector<std::int64_t> bytes(savers.node.size());
    for (Writer const& writer : assign_writers(savers))
        for (int const source : writer.sources) {
            auto const r = static_cast<std::size_t>(source);
            bool const here = savers.node[r] == savers.node[static_cast<std::size_t>(writer.rank)];
            bytes[here ? r : static_cast<std::size_t>(writer.rank)] += savers.bytes[r];
        }
    return bytes;
}

} // namespace evener::runtime
