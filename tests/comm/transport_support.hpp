// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the transport tests share: the world, one pass of given queues, the options under which each
// exchange must give the same result.

#include "comm/transport.hpp"

#include <gtest/gtest.h>
#include <mpi.h>

#include <string>
#include <vector>

namespace evener::comm {

inline int world_rank() {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    return rank;
}

inline int world_size() {
    int size = 1;
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    return size;
}

inline std::size_t task_count(std::vector<TransportQueue> const& queues) {
    std::size_t count = 0;
    for (TransportQueue const& queue : queues)
        count += queue.tasks.size();
    return count;
}

/// A collective queue of one task with id 0.
inline std::vector<TransportQueue> only(Work work) {
    TransportQueue queue{TransportQueue::Kind::collective, {}};
    queue.tasks.push_back({core::InstructionId{0}, {}, std::move(work)});
    return {queue};
}

inline void run_pass(Transport& transport, std::vector<TransportQueue> const& queues) {
    Board board{task_count(queues)};
    transport.start(queues, board);
    transport.finish();
    for (std::size_t i = 0; i < board.size(); ++i)
        EXPECT_TRUE(board.done(core::InstructionId{static_cast<std::int64_t>(i)}));
}

struct NamedOptions {
    std::string name;
    TransportOptions options;
};

/// Plain; small blocks; synchronous with random delays.
inline std::vector<NamedOptions> all_options() {
    std::vector<NamedOptions> all{{"plain", {}}, {"small blocks", {}}, {"delayed", {}}};
    all[1].options.exchange_block_bytes = 4 * 64;
    all[1].options.message_block_bytes = 4 * 100;
    all[2].options.synchronous_sends = true;
    all[2].options.random_delays = RandomDelays{11, 300};
    return all;
}

} // namespace evener::comm
