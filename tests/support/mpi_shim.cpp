// SPDX-License-Identifier: Apache-2.0

// Loaded in front of MPI (LD_PRELOAD) by tests that need another MPI than the machine's:
// EVENER_SHIM_CUDA_AWARE=1: one that says that it takes GPU memory; the fake GPUs must let it
// (EVENER_HOSTCUDA_REACH=1).
// EVENER_SHIM_DIES=NUMBER@RANK: the process of that rank is killed in its NUMBER-th MPI_Isend.

#include <mpi.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>

namespace {

long number_of(char const* variable) {
    char const* const text = std::getenv(variable);
    return text != nullptr ? std::strtol(text, nullptr, 10) : 0;
}

/// Whether the variable names this rank behind an '@'.
bool means_me(char const* variable) {
    char const* const text = std::getenv(variable);
    char const* const at = text != nullptr ? std::strchr(text, '@') : nullptr;
    char const* const own = std::getenv("OMPI_COMM_WORLD_RANK");
    return at != nullptr && own != nullptr && std::strcmp(at + 1, own) == 0;
}

} // namespace

extern "C" {

int MPIX_Query_cuda_support(void) {
    return number_of("EVENER_SHIM_CUDA_AWARE") == 1 ? 1 : 0;
}

int MPI_Isend(void const* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm,
              MPI_Request* request) {
    static std::atomic<long> left =
        means_me("EVENER_SHIM_DIES") ? number_of("EVENER_SHIM_DIES") : 0;
    if (left > 0 && --left == 0)
        std::raise(SIGKILL);
    return PMPI_Isend(data, count, type, dest, tag, comm, request);
}

} // extern "C"
