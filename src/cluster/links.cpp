// SPDX-License-Identifier: Apache-2.0
#include "cluster/links.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace evener::cluster {

namespace {

constexpr int small_bytes = 8;
constexpr int large_bytes = 1 << 20;
constexpr int small_rounds = 30;
constexpr int large_rounds = 5;
constexpr int tag = 0;

using Clock = std::chrono::steady_clock;

/// Shortest of several exchanges: `there` bytes from `first`, `back` bytes in return. Both call it.
double exchange_seconds(MPI_Comm comm, int peer, bool first, std::vector<char>& buffer, int there,
                        int back, int rounds) {
    double best = std::numeric_limits<double>::infinity();
    for (int round = 0; round < rounds; ++round) {
        auto const begin = Clock::now();
        if (first) {
            EVENER_MPI(MPI_Send(buffer.data(), there, MPI_CHAR, peer, tag, comm));
            EVENER_MPI(MPI_Recv(buffer.data(), back, MPI_CHAR, peer, tag, comm, MPI_STATUS_IGNORE));
        } else {
            EVENER_MPI(
                MPI_Recv(buffer.data(), there, MPI_CHAR, peer, tag, comm, MPI_STATUS_IGNORE));
            EVENER_MPI(MPI_Send(buffer.data(), back, MPI_CHAR, peer, tag, comm));
        }
        best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
    }
    return best;
}

/// Wires of one pair, measured by its lower rank.
struct PairWires {
    program::Wire up;   ///< from the lower rank to the higher
    program::Wire down; ///< back
};

PairWires measure_pair(MPI_Comm comm, int mine, int peer, std::vector<char>& buffer) {
    bool const first = mine < peer;
    double const small =
        exchange_seconds(comm, peer, first, buffer, small_bytes, small_bytes, small_rounds);
    double const up =
        exchange_seconds(comm, peer, first, buffer, large_bytes, small_bytes, large_rounds);
    double const down =
        exchange_seconds(comm, peer, first, buffer, small_bytes, large_bytes, large_rounds);
    auto const wire = [&](double seconds) {
        return program::Wire{small / 2, std::max(0.0, seconds - small) / large_bytes};
    };
    return {wire(up), wire(down)};
}

/// Partner of a rank in a round of a tournament of `players` (even): every two meet once.
int partner(int rank, int round, int players) {
    int const last = players - 1;
    if (rank == last)
        return round;
    if (rank == round)
        return last;
    return (2 * round - rank + 2 * last) % last;
}

} // namespace

program::Network measure_network(comm::Communicator const& world) {
    int const ranks = world.size();
    int const players = ranks + ranks % 2;
    std::vector<char> buffer(large_bytes);
    program::Network network = program::uniform_network(ranks, {});
    std::vector<double> seconds(static_cast<std::size_t>(4 * ranks * ranks));
    for (int round = 0; round + 1 < players; ++round) {
        world.barrier();
        int const peer = partner(world.rank(), round, players);
        if (peer >= ranks)
            continue; // the odd one out
        PairWires const wires = measure_pair(world.get(), world.rank(), peer, buffer);
        if (world.rank() > peer)
            continue;
        auto const place = static_cast<std::size_t>(4 * (world.rank() * ranks + peer));
        seconds[place] = wires.up.latency_seconds;
        seconds[place + 1] = wires.up.seconds_per_byte;
        seconds[place + 2] = wires.down.latency_seconds;
        seconds[place + 3] = wires.down.seconds_per_byte;
    }
    seconds = world.all_sum(std::move(seconds));
    for (int a = 0; a < ranks; ++a)
        for (int b = a + 1; b < ranks; ++b) {
            auto const place = static_cast<std::size_t>(4 * (a * ranks + b));
            auto const wire = [&](int src, int dst) -> program::Wire& {
                return network.wires[static_cast<std::size_t>(
                    network.wire_between(core::RankId{src}, core::RankId{dst}))];
            };
            wire(a, b) = {seconds[place], seconds[place + 1]};
            wire(b, a) = {seconds[place + 2], seconds[place + 3]};
        }
    return network;
}

} // namespace evener::cluster
