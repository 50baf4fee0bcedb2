// SPDX-License-Identifier: Apache-2.0
#pragma once

// The functions of NCCL that groups use, looked up in the library when they are first needed: it is
// large, and a group of one GPU does without.

#include <nccl.h>

#include <string>

namespace evener::kernels::cuda {

struct Nccl {
    decltype(&ncclGetVersion) get_version;
    decltype(&ncclGetUniqueId) get_unique_id;
    decltype(&ncclCommInitRankConfig) init_rank;
    decltype(&ncclCommGetAsyncError) get_async_error;
    decltype(&ncclCommDestroy) destroy;
    decltype(&ncclCommAbort) abort;
    decltype(&ncclGroupStart) group_start;
    decltype(&ncclGroupEnd) group_end;
    decltype(&ncclReduce) reduce;
    decltype(&ncclBroadcast) broadcast;
    decltype(&ncclGetErrorString) error_string;
    decltype(&ncclGetLastError) last_error;
};

/// Opens the library at the first call. Throws std::runtime_error with the loader's text.
Nccl const& nccl();

} // namespace evener::kernels::cuda
