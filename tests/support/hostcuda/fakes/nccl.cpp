// SPDX-License-Identifier: Apache-2.0

// NCCL's functions. Calls of a group are collected per thread and issued when the outermost group
// ends. On a communicator that does not block, the end of a group may return ncclInProgress: then the
// calls reach the stream only while somebody polls ncclCommGetAsyncError, as with real connections.

#include "faults.hpp"
#include "nccl_functions.hpp"
#include "nccl_operations.hpp"

#include <cstring>
#include <random>

struct ncclComm {
    std::shared_ptr<evener::hostcuda::Communicator> state;
};

namespace evener::hostcuda {
namespace {

thread_local int group_depth = 0;
thread_local std::vector<CollectiveCall> group_calls;
thread_local std::string last_error;

/// As guarded() of the runtime, in NCCL's codes.
ncclResult_t guarded_nccl(std::function<ncclResult_t()> const& body) {
    ncclResult_t result = ncclSuccess;
    cudaError_t const code = guarded([&] { result = body(); });
    if (code == cudaSuccess)
        return result;
    last_error = cudaGetErrorString(code);
    if (code == cudaErrorInvalidValue || code == cudaErrorInvalidResourceHandle)
        return ncclInvalidArgument;
    return code == cudaErrorNotSupported ? ncclInvalidUsage : ncclUnhandledCudaError;
}

void issue_pending(Communicator& communicator) {
    communicator.polls_left = 0;
    for (auto const& pending : std::exchange(communicator.unissued, {}))
        pending();
}

int random_polls() {
    static std::mt19937_64 random{seed() + 2};
    return shuffled() ? static_cast<int>(random() % 4) : 0;
}

/// The calls of one communicator.
ncclResult_t issue_one(std::vector<CollectiveCall> const& calls) {
    Communicator& communicator = *calls.front().communicator;
    for (CollectiveCall const& call : calls)
        if (call.stream != calls.front().stream)
            refuse_call(cudaErrorNotSupported,
                        "one communicator on several streams in one group of calls");
    static std::vector<CollectiveCall> late; // by a planted fault
    if (fault_now(FaultKind::swapped_collectives)) {
        late = calls;
        return ncclSuccess;
    }
    issue_pending(communicator);
    int const polls = communicator.blocking ? 0 : random_polls();
    if (polls == 0 || !late.empty()) {
        issue(calls);
        if (!late.empty())
            issue(std::exchange(late, {}));
        return ncclSuccess;
    }
    communicator.polls_left = polls;
    communicator.unissued.push_back([calls] { issue(calls); });
    return ncclInProgress;
}

ncclResult_t issue_group() {
    ncclResult_t result = ncclSuccess;
    auto calls = std::exchange(group_calls, {});
    while (!calls.empty()) {
        auto const communicator = calls.front().communicator;
        std::vector<CollectiveCall> own;
        std::erase_if(calls, [&](CollectiveCall const& call) {
            if (call.communicator != communicator)
                return false;
            own.push_back(call);
            return true;
        });
        if (issue_one(own) == ncclInProgress)
            result = ncclInProgress;
    }
    return result;
}

ncclResult_t call_collective(Collective kind, void const* src, void* dst, std::size_t count,
                             ncclDataType_t type, ncclRedOp_t reduction, int peer, ncclComm_t comm,
                             cudaStream_t stream) {
    return guarded_nccl([&] {
        auto const& state = comm->state;
        if (state->aborted || !joined(*state))
            refuse_call(cudaErrorNotSupported,
                        "a collective on a communicator that is not ready (or aborted)");
        CollectiveCall const call{kind, src, dst, count, type, reduction, peer, state, stream};
        check(call);
        group_calls.push_back(call);
        return group_depth > 0 ? ncclSuccess : issue_group();
    });
}

} // namespace
} // namespace evener::hostcuda

using namespace evener::hostcuda;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
    *version = NCCL_VERSION_CODE;
    return ncclSuccess;
}

char const* ncclGetErrorString(ncclResult_t result) {
    switch (result) {
    case ncclSuccess:
        return "no error";
    case ncclInProgress:
        return "NCCL operation in progress";
    case ncclInvalidArgument:
        return "invalid argument";
    case ncclInvalidUsage:
        return "invalid usage";
    case ncclUnhandledCudaError:
        return "unhandled cuda error";
    case ncclRemoteError:
        return "remote process exited or there was a network error";
    default:
        return "unknown result code";
    }
}

char const* ncclGetLastError(ncclComm_t) {
    return last_error.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    return guarded_nccl([=] {
        *id = make_unique_id();
        return ncclSuccess;
    });
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    return guarded_nccl([&] {
        auto state = join(id, rank, size);
        state->blocking = !config || config->blocking != 0; // undefined means blocking
        *comm = new ncclComm{state};
        if (!state->blocking)
            return ncclInProgress;
        wait_until_joined(*state);
        return ncclSuccess;
    });
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
    return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* created,
                           ncclConfig_t* config) {
    return guarded_nccl([&] {
        wait_until_joined(*comm->state);
        auto state = split(*comm->state, color, key);
        if (state && config)
            state->blocking = config->blocking != 0;
        *created = state ? new ncclComm{state} : nullptr;
        return ncclSuccess;
    });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* result) {
    return guarded_nccl([=] {
        Communicator& state = *comm->state;
        make_step();
        if (!joined(state)) {
            *result = ncclInProgress;
            return ncclSuccess;
        }
        if (int const missing = missing_member(state); missing >= 0) {
            last_error = "rank " + std::to_string(missing) + " is gone";
            *result = ncclRemoteError;
            return ncclSuccess;
        }
        if (state.polls_left > 0 && --state.polls_left == 0)
            issue_pending(state);
        *result = state.polls_left > 0 ? ncclInProgress : ncclSuccess;
        return ncclSuccess;
    });
}

ncclResult_t ncclCommCount(ncclComm_t const comm, int* count) {
    *count = comm->state->size;
    return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t const comm, int* rank) {
    *rank = comm->state->rank;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    return guarded_nccl([=] {
        issue_pending(*comm->state);
        return ncclSuccess;
    });
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    ncclResult_t const result = ncclCommFinalize(comm);
    delete comm; // operations on streams keep the rest
    return result;
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
    {
        std::lock_guard const lock{runtime_lock()}; // also after a fatal error
        comm->state->aborted = true;
        comm->state->unissued.clear();
        comm->state->joining.reset();
    }
    delete comm;
    return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
    ++group_depth;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
    if (group_depth == 0)
        return ncclInvalidUsage;
    if (--group_depth > 0)
        return ncclSuccess;
    return guarded_nccl(issue_group);
}

ncclResult_t ncclReduce(void const* src, void* dst, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t reduction, int root, ncclComm_t comm, cudaStream_t stream) {
    return call_collective(Collective::reduce, src, dst, count, type, reduction, root, comm,
                           stream);
}

ncclResult_t ncclBroadcast(void const* src, void* dst, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
    return call_collective(Collective::broadcast, src, dst, count, type, ncclSum, root, comm,
                           stream);
}

ncclResult_t ncclAllReduce(void const* src, void* dst, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
    return call_collective(Collective::all_reduce, src, dst, count, type, reduction, -1, comm,
                           stream);
}

ncclResult_t ncclAllGather(void const* src, void* dst, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    return call_collective(Collective::all_gather, src, dst, count, type, ncclSum, -1, comm,
                           stream);
}

ncclResult_t ncclReduceScatter(void const* src, void* dst, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
    return call_collective(Collective::reduce_scatter, src, dst, count, type, reduction, -1, comm,
                           stream);
}

ncclResult_t ncclSend(void const* src, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
    return call_collective(Collective::send, src, nullptr, count, type, ncclSum, peer, comm,
                           stream);
}

ncclResult_t ncclRecv(void* dst, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    return call_collective(Collective::receive, nullptr, dst, count, type, ncclSum, peer, comm,
                           stream);
}

} // extern "C"

void* evener::hostcuda::nccl_function(char const* name) {
    struct Entry {
        char const* name;
        void* function;
    };
#define ENTRY(function)                                                                            \
    Entry {                                                                                        \
#function, reinterpret_cast < void*>(function)                                             \
    }
    static Entry const entries[] = {
        ENTRY(ncclGetVersion),   ENTRY(ncclGetErrorString),     ENTRY(ncclGetLastError),
        ENTRY(ncclGetUniqueId),  ENTRY(ncclCommInitRankConfig), ENTRY(ncclCommInitRank),
        ENTRY(ncclCommSplit),    ENTRY(ncclCommGetAsyncError),  ENTRY(ncclCommCount),
        ENTRY(ncclCommUserRank), ENTRY(ncclCommFinalize),       ENTRY(ncclCommDestroy),
        ENTRY(ncclCommAbort),    ENTRY(ncclGroupStart),         ENTRY(ncclGroupEnd),
        ENTRY(ncclReduce),       ENTRY(ncclBroadcast),          ENTRY(ncclAllReduce),
        ENTRY(ncclAllGather),    ENTRY(ncclReduceScatter),      ENTRY(ncclSend),
        ENTRY(ncclRecv),
    };
#undef ENTRY
    for (Entry const& entry : entries)
        if (std::strcmp(entry.name, name) == 0)
            return entry.function;
    return nullptr;
}
