// SPDX-License-Identifier: Apache-2.0

// Two ranks whose calls do not match: rank 0 reduces where rank 1 broadcasts. The layer must say so.

#include <cuda_runtime.h>
#include <mpi.h>
#include <nccl.h>

#include <cstdio>

int main(int argc, char** argv) {
    int level = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    int rank = 0;
    int size = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ncclUniqueId id{};
    if (rank == 0)
        ncclGetUniqueId(&id);
    MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
    ncclComm_t comm = nullptr;
    ncclCommInitRank(&comm, size, id, rank);
    cudaStream_t stream = nullptr;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    constexpr std::size_t count = 100;
    float* memory = nullptr;
    cudaMalloc(&memory, count * sizeof(float));
    if (rank == 0)
        ncclReduce(memory, memory, count, ncclFloat32, ncclSum, 0, comm, stream);
    else
        ncclBroadcast(memory, memory, count, ncclFloat32, 1, comm, stream);
    cudaError_t const code = cudaStreamSynchronize(stream);
    std::printf("rank %d: %s\n", rank, cudaGetErrorString(code));
    std::fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return code != cudaSuccess;
}
