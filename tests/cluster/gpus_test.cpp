// SPDX-License-Identifier: Apache-2.0
// Two ranks never compute on one GPU, and near GPUs go first.
#include "cluster/gpus.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace evener::cluster {
namespace {

GpuCandidate gpu(int ordinal, int identity, int distance) {
    GpuCandidate candidate;
    candidate.ordinal = ordinal;
    candidate.uuid[0] = static_cast<unsigned char>(identity);
    candidate.distance = distance;
    return candidate;
}

using Assignment = std::vector<std::optional<int>>;

TEST(Gpus, EachRankTakesItsNearOne) {
    EXPECT_EQ(assign_gpus({{gpu(0, 7, 2), gpu(1, 8, 0)}, {gpu(0, 7, 0), gpu(1, 8, 2)}}),
              (Assignment{1, 0}));
    // The second rank's near GPU is not taken by the first, which has no near one left.
    EXPECT_EQ(assign_gpus({{gpu(0, 7, 0), gpu(1, 8, 2)},
                           {gpu(0, 7, 0), gpu(1, 8, 2)},
                           {gpu(0, 7, 2), gpu(1, 8, 0)}}),
              (Assignment{0, std::nullopt, 1}));
}

TEST(Gpus, WhereEachRankSeesOneOnlyTheIdentityCounts) {
    // As under srun --gpus-per-task=1: every rank calls its own GPU 0.
    EXPECT_EQ(assign_gpus({{gpu(0, 1, 0)}, {gpu(0, 2, 0)}}), (Assignment{0, 0}));
    // And where all ranks were given the same one, only one rank gets it.
    EXPECT_EQ(assign_gpus({{gpu(0, 1, 0)}, {gpu(0, 1, 0)}}), (Assignment{0, std::nullopt}));
}

TEST(Gpus, NoGpuIsTakenTwiceAndNoneStaysIdleThatARankCouldUse) {
    std::mt19937 random{5};
    auto const below = [&](int limit) { return static_cast<int>(random() % limit); };
    for (int round = 0; round < 300; ++round) {
        std::vector<std::vector<GpuCandidate>> ranks(static_cast<std::size_t>(1 + below(6)));
        int const gpus = below(6);
        for (auto& seen : ranks)
            for (int identity = 0; identity < gpus; ++identity)
                if (below(4) != 0)
                    seen.push_back(gpu(static_cast<int>(seen.size()), identity, below(3)));
        Assignment const chosen = assign_gpus(ranks);
        std::set<int> taken;
        for (std::size_t rank = 0; rank < ranks.size(); ++rank)
            if (chosen[rank]) {
                int const identity = ranks[rank][static_cast<std::size_t>(*chosen[rank])].uuid[0];
                EXPECT_TRUE(taken.insert(identity).second) << "GPU " << identity << " twice";
            }
        for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
            if (chosen[rank])
                continue;
            for (GpuCandidate const& candidate : ranks[rank])
                EXPECT_TRUE(taken.contains(candidate.uuid[0]))
                    << "rank " << rank << " could have GPU " << int{candidate.uuid[0]};
        }
    }
}

} // namespace
} // namespace evener::cluster
