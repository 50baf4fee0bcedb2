// SPDX-License-Identifier: Apache-2.0
// Who writes whose slices: every rank's once, nodes that cannot write to writers that can.
#include "runtime/writers.hpp"
#include "support/random_plan.hpp"
#include "support/sizes.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace evener::runtime {
namespace {

using Ranks = std::vector<int>;
using Bytes = std::vector<std::int64_t>;

TEST(Writers, AreTheLowestRanksOfTheirNodes) {
    auto const writers = assign_writers({{0, 0, 2, 2, 4}, {8, 8, 8, 8, 8}, {}});
    ASSERT_EQ(writers.size(), 3u);
    EXPECT_EQ(writers[0].sources, (Ranks{0, 1}));
    EXPECT_EQ(writers[1].rank, 2);
    EXPECT_EQ(writers[2].sources, Ranks{4});
    EXPECT_EQ(writers[1].bytes, 16);
}

TEST(Writers, AreOthersOfANodeWhereTheLowestMayNot) {
    auto const writers =
        assign_writers({{0, 0, 2, 2, 4}, {8, 8, 8, 8, 8}, {true, true, false, true, true}});
    ASSERT_EQ(writers.size(), 3u);
    EXPECT_EQ(writers[1].rank, 3);
    EXPECT_EQ(writers[1].sources, (Ranks{2, 3}));
}

TEST(Writers, TakeTheNodesThatMayNotWriteWhereTheLeastIs) {
    Savers const savers{{0, 0, 2, 2, 4}, {8, 8, 7, 7, 8}, {true, true, false, false, true}};
    auto const writers = assign_writers(savers);
    ASSERT_EQ(writers.size(), 2u);
    EXPECT_EQ(writers[0].sources, (Ranks{0, 1}));
    EXPECT_EQ(writers[1].rank, 4);
    EXPECT_EQ(writers[1].sources, (Ranks{2, 3, 4}));
    EXPECT_EQ(writers[1].bytes, 22);
    EXPECT_EQ(snapshot_bytes(savers), (Bytes{8, 8, 0, 0, 22}));
}

TEST(Writers, CoverEveryRankOnceAndEveryByteHasARow) {
    for (std::uint64_t const seed : support::seeds("writers", 1000)) {
        support::Random random{seed};
        Savers savers;
        auto const ranks = static_cast<int>(random.integer(1, 12));
        // Nodes may be interleaved: a node is any set of ranks.
        Ranks lowest;
        for (int r = 0; r < ranks; ++r) {
            bool const fresh = lowest.empty() || random.integer(0, 2) == 0;
            if (fresh)
                lowest.push_back(r);
            auto const last = static_cast<std::int64_t>(lowest.size()) - 1;
            savers.node.push_back(
                fresh ? r : lowest[static_cast<std::size_t>(random.integer(0, last))]);
            savers.bytes.push_back(random.integer(0, 100));
            savers.may_write.push_back(r == 0 || random.integer(0, 1) == 1);
        }
        auto const writers = assign_writers(savers);
        Ranks covered;
        std::set<int> nodes;
        for (Writer const& writer : writers) {
            EXPECT_TRUE(savers.may_write[static_cast<std::size_t>(writer.rank)]) << seed;
            EXPECT_TRUE(nodes.insert(savers.node[static_cast<std::size_t>(writer.rank)]).second)
                << seed << ": two writers on a node";
            std::int64_t bytes = 0;
            for (int const source : writer.sources) {
                bytes += savers.bytes[static_cast<std::size_t>(source)];
                EXPECT_EQ(&writers[writer_of(writers, source)], &writer) << seed;
            }
            EXPECT_EQ(bytes, writer.bytes) << seed;
            covered.insert(covered.end(), writer.sources.begin(), writer.sources.end());
        }
        std::sort(covered.begin(), covered.end());
        Ranks all(static_cast<std::size_t>(ranks));
        std::iota(all.begin(), all.end(), 0);
        EXPECT_EQ(covered, all) << seed;
        EXPECT_TRUE(std::is_sorted(writers.begin(), writers.end(),
                                   [](auto const& a, auto const& b) { return a.rank < b.rank; }))
            << seed;
        auto const rows = snapshot_bytes(savers);
        EXPECT_EQ(std::accumulate(rows.begin(), rows.end(), std::int64_t{0}),
                  std::accumulate(savers.bytes.begin(), savers.bytes.end(), std::int64_t{0}))
            << seed;
    }
}

} // namespace
} // namespace evener::runtime
