// SPDX-License-Identifier: Apache-2.0

// Under mpirun or srun: prints for each rank its host, and how many ranks it shares memory with.

#include <mpi.h>

#include <array>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
    MPI_Init(&argc, &argv);
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm node = MPI_COMM_NULL;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node);
    int together = 0;
    MPI_Comm_size(node, &together);
    std::array<char, MPI_MAX_PROCESSOR_NAME> host{};
    int length = 0;
    MPI_Get_processor_name(host.data(), &length);

    std::array<char, 256> line{};
    std::snprintf(line.data(), line.size(), "rank %d of %d on %.100s with %d", rank, ranks,
                  host.data(), together);
    std::vector<char> lines(line.size() * static_cast<std::size_t>(ranks));
    int const bytes = static_cast<int>(line.size());
    MPI_Gather(line.data(), bytes, MPI_CHAR, lines.data(), bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (rank == 0)
        for (std::size_t i = 0; i < lines.size(); i += line.size())
            std::puts(&lines[i]);
    MPI_Comm_free(&node);
    MPI_Finalize();
}
