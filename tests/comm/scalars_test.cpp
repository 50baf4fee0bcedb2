// SPDX-License-Identifier: Apache-2.0
#include "transport_support.hpp"

#include <cstring>

namespace evener::comm {
namespace {

using Bytes = std::vector<std::byte>;

/// Rank r's record in round k: r + k bytes of value r. Joined in order of rank.
Bytes record(int rank, int round) {
    return Bytes(static_cast<std::size_t>(rank + round), static_cast<std::byte>(rank));
}

Bytes joined(int round) {
    Bytes all;
    for (int rank = 0; rank < world_size(); ++rank) {
        Bytes const one = record(rank, round);
        all.insert(all.end(), one.begin(), one.end());
    }
    return all;
}

TEST(Scalars, AreCombinedInOrderOfRankAndGivenToAll) {
    for (auto const& [name, options] : all_options()) {
        SCOPED_TRACE(name);
        Transport transport{MPI_COMM_WORLD, options};
        int const rounds = 5; // round 0: rank 0 has nothing to say
        std::vector<Bytes> results(rounds);
        int combined = 0;
        TransportQueue queue{TransportQueue::Kind::collective, {}};
        for (int round = 0; round < rounds; ++round)
            queue.tasks.push_back({core::InstructionId{round},
                                   {},
                                   ScalarsTask{[round] { return record(world_rank(), round); },
                                               [&](std::vector<Bytes> const& records) {
                                                   ++combined;
                                                   Bytes all;
                                                   for (Bytes const& one : records)
                                                       all.insert(all.end(), one.begin(),
                                                                  one.end());
                                                   return all;
                                               },
                                               [&results, round](std::span<std::byte const> all) {
                                                   results[static_cast<std::size_t>(round)].assign(
                                                       all.begin(), all.end());
                                               }}});
        for (int pass = 0; pass < 3; ++pass) {
            results.assign(rounds, Bytes{});
            run_pass(transport, {queue});
            for (int round = 0; round < rounds; ++round)
                EXPECT_EQ(results[static_cast<std::size_t>(round)], joined(round));
        }
        EXPECT_EQ(combined, world_rank() == 0 ? 3 * rounds : 0);
    }
}

} // namespace
} // namespace evener::comm
