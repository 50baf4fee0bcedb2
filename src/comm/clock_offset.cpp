// SPDX-License-Identifier: Apache-2.0
#include "comm/clock_offset.hpp"

#include "comm/mpi_check.hpp"

#include <chrono>

namespace evener::comm {

namespace {

constexpr int exchanges = 20; ///< of which the quickest counts
constexpr int tag = 0;

ClockOffset ask(MPI_Comm world, std::function<double()> const& now) {
    ClockOffset best;
    for (int i = 0; i < exchanges; ++i) {
        double theirs = 0;
        double const sent = now();
        EVENER_MPI(MPI_Send(&theirs, 1, MPI_DOUBLE, 0, tag, world));
        EVENER_MPI(MPI_Recv(&theirs, 1, MPI_DOUBLE, 0, tag, world, MPI_STATUS_IGNORE));
        double const received = now();
        double const half = (received - sent) / 2;
        if (i == 0 || half < best.error_seconds)
            best = {theirs - (sent + half), half};
    }
    return best;
}

void answer(MPI_Comm world, int rank, std::function<double()> const& now) {
    for (int i = 0; i < exchanges; ++i) {
        double time = 0;
        EVENER_MPI(MPI_Recv(&time, 1, MPI_DOUBLE, rank, tag, world, MPI_STATUS_IGNORE));
        time = now();
        EVENER_MPI(MPI_Send(&time, 1, MPI_DOUBLE, rank, tag, world));
    }
}

} // namespace

double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

ClockOffset measure_clock_offset(Communicator const& world, Communicator const& node,
                                 std::function<double()> const& now) {
    // The lowest rank of a node asks for all of them; those of rank 0's node know.
    std::vector<int> const lowest = lowest_of_nodes(world, node);
    ClockOffset offset;
    for (int rank = 1; rank < world.size(); ++rank) {
        if (lowest[static_cast<std::size_t>(rank)] != rank)
            continue;
        if (rank == world.rank())
            offset = ask(world.get(), now);
        else if (world.rank() == 0)
            answer(world.get(), rank, now);
        world.barrier(); // one after the other, so that rank 0 answers at once
    }
    // One rank of the node knows, the others add nothing.
    std::vector<double> const known =
        node.all_sum(std::vector<double>{offset.seconds, offset.error_seconds});
    return {known[0], known[1]};
}

} // namespace evener::comm
