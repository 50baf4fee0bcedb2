// SPDX-License-Identifier: Apache-2.0

// Speed of the transport, one JSON line from rank 0. Run with 2 ranks:
//   mpirun --bind-to none -n 2 bin/transport_bench
// idle_cost: what a transport thread with a receive outstanding takes from the compute thread of a
// rank that has one core: wall time of a piece of work with it / without it - 1, best of several.
// transport_share: processor time of the transport thread / that of the compute thread in the same
// run, median; an upper bound of the cost on a machine that others use too.
// latency_*: from a publication on rank 0 to the wake-up of a thread that waits on rank 1.
// blocks_ratio_64_mib: that time of a message in blocks / in one piece, median of 5 ratios.

#include "comm/transport.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

namespace {

using namespace evener::comm;
using evener::core::InstructionId;
using evener::core::RankId;

double seconds(clockid_t clock) {
    timespec time{};
    clock_gettime(clock, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Processor time of this thread and of the whole process, and wall time.
struct Times {
    double thread = 0;
    double process = 0;
    double wall = 0;
};

/// A fixed amount of work on 1 MiB of memory, about 0.4 s.
Times work() {
    static std::vector<float> data(1 << 18, 1.0f);
    double const thread = seconds(CLOCK_THREAD_CPUTIME_ID);
    double const process = seconds(CLOCK_PROCESS_CPUTIME_ID);
    double const wall = seconds(CLOCK_MONOTONIC);
    for (int round = 0; round < 8000; ++round)
        for (float& value : data)
            value = value * 0.999f + 0.001f;
    return {seconds(CLOCK_THREAD_CPUTIME_ID) - thread, seconds(CLOCK_PROCESS_CPUTIME_ID) - process,
            seconds(CLOCK_MONOTONIC) - wall};
}

/// Gives each rank one of the allowed cores, before the transport's thread is made.
void use_one_core(int rank) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    sched_getaffinity(0, sizeof allowed, &allowed);
    std::vector<int> cores;
    for (int core = 0; core < CPU_SETSIZE; ++core)
        if (CPU_ISSET(core, &allowed))
            cores.push_back(core);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cores[static_cast<std::size_t>(rank) % cores.size()], &one);
    sched_setaffinity(0, sizeof one, &one);
}

std::vector<TransportQueue> message(int rank, std::vector<std::byte>& data, InstructionId id,
                                    std::vector<InstructionId> after) {
    auto const bytes = static_cast<std::int64_t>(data.size());
    if (rank == 0)
        return {{TransportQueue::Kind::send,
                 {{id, std::move(after),
                   SendTask{RankId{1}, Direction::forward, 0, data.data(), bytes}}}}};
    return {{TransportQueue::Kind::receive,
             {{id, {}, ReceiveTask{RankId{0}, Direction::forward, 0, data.data(), bytes}}}}};
}

struct IdleCost {
    double wall = 0;
    double transport_share = 0;
};

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    return values[values.size() / 2];
}

IdleCost idle_cost(Transport& transport, int rank) {
    double alone = 1e9;
    double with = 1e9;
    std::vector<double> shares;
    std::vector<std::byte> data(8);
    auto const queues = message(rank, data, InstructionId{0}, {InstructionId{1}});
    for (int run = 0; run < 7; ++run) {
        MPI_Barrier(MPI_COMM_WORLD);
        alone = std::min(alone, work().wall);
        Board board{2};
        transport.start(queues, board);
        Times const times = work();
        with = std::min(with, times.wall);
        shares.push_back(times.process / times.thread - 1);
        if (rank == 0)
            board.publish(InstructionId{1});
        transport.finish();
    }
    return {with / alone - 1, median(shares)};
}

/// Median over passes of the microseconds from a publication on rank 0 to the end of the receive on
/// rank 1, after rank 1 has waited for `wait`.
double latency_us(Transport& transport, int rank, std::size_t bytes, std::chrono::microseconds wait,
                  int passes = 51) {
    std::vector<double> all;
    std::vector<std::byte> data(bytes);
    auto const queues = message(rank, data, InstructionId{0}, {InstructionId{1}});
    for (int pass = 0; pass < passes; ++pass) {
        Board board{2};
        MPI_Barrier(MPI_COMM_WORLD);
        transport.start(queues, board);
        double time = 0; // CLOCK_MONOTONIC is one clock for both ranks of a node
        if (rank == 0) {
            timespec const pause{0, static_cast<long>(wait.count()) * 1000};
            nanosleep(&pause, nullptr);
            time = seconds(CLOCK_MONOTONIC);
            board.publish(InstructionId{1});
        } else {
            board.wait(InstructionId{0});
            time = seconds(CLOCK_MONOTONIC);
        }
        transport.finish();
        double sent = time;
        MPI_Bcast(&sent, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
        all.push_back(1e6 * (time - sent));
    }
    double result = median(all);
    MPI_Bcast(&result, 1, MPI_DOUBLE, 1, MPI_COMM_WORLD);
    return result;
}

double blocks_ratio(Transport& blocks, int rank, std::size_t bytes) {
    TransportOptions whole_message;
    whole_message.message_block_bytes = std::int64_t{1} << 30;
    Transport whole{MPI_COMM_WORLD, whole_message};
    std::chrono::microseconds const soon{100};
    std::vector<double> ratios;
    for (int round = 0; round < 5; ++round) {
        double const one_piece = latency_us(whole, rank, bytes, soon, 11);
        ratios.push_back(latency_us(blocks, rank, bytes, soon, 11) / one_piece);
    }
    return median(ratios);
}

void report(int rank) {
    use_one_core(rank);
    Transport transport{MPI_COMM_WORLD};
    IdleCost cost = idle_cost(transport, rank);
    MPI_Bcast(&cost, sizeof cost, MPI_BYTE, 1, MPI_COMM_WORLD); // rank 1 is the receiver
    using std::chrono::microseconds;
    double const small_soon = latency_us(transport, rank, 8, microseconds{100});
    double const small_late = latency_us(transport, rank, 8, microseconds{10000});
    double const mebibyte = latency_us(transport, rank, 1 << 20, microseconds{10000});
    double const large = latency_us(transport, rank, 64 << 20, microseconds{10000});
    double const ratio = blocks_ratio(transport, rank, 64 << 20);
    if (rank == 0)
        fmt::print(
            "{{\"bench\": \"transport\", \"idle_cost\": {:.4f}, \"transport_share\": {:.4f}, "
            "\"latency_8_bytes_soon_us\": {:.0f}, \"latency_8_bytes_us\": {:.0f}, "
            "\"latency_1_mib_us\": {:.0f}, \"gigabytes_per_second_64_mib\": {:.2f}, "
            "\"blocks_ratio_64_mib\": {:.3f}}}\n",
            cost.wall, cost.transport_share, small_soon, small_late, mebibyte,
            (64 << 20) / large / 1e3, ratio);
}

} // namespace

int main(int argc, char** argv) {
    setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
    int provided = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size != 2)
        std::fprintf(stderr, "run this with 2 ranks\n");
    else
        report(rank);
    MPI_Finalize();
    return size == 2 ? 0 : 2;
}
