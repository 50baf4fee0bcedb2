// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collectives of the fake NCCL as exchanges of messages. Sums are formed in order of ranks, so that
// every member that forms one gets the same bits.

#include "nccl_communicator.hpp"

namespace evener::hostcuda {

enum class Collective : int {
    reduce,
    broadcast,
    all_reduce,
    all_gather,
    reduce_scatter,
    send,
    receive
};

struct CollectiveCall {
    Collective kind;
    void const* src;
    void* dst;
    std::size_t count; ///< elements, of each part where there are parts
    ncclDataType_t type;
    ncclRedOp_t reduction;
    int peer; ///< root, destination or source; -1 where there is none
    std::shared_ptr<Communicator> communicator;
    cudaStream_t stream;
};

/// Throws Fault for arguments that NCCL would refuse or this fake does not know.
void check(CollectiveCall const& call);

/// The calls of one group on one communicator, as one operation of their stream. They start
/// together, after all operations issued before on this communicator have started.
void issue(std::vector<CollectiveCall> const& calls);

} // namespace evener::hostcuda
