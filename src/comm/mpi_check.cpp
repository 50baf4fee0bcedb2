// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi_check.hpp"

#include <fmt/format.h>

namespace evener::comm {

std::string error_string(int code) {
    char text[MPI_MAX_ERROR_STRING] = {};
    int length = 0;
    if (MPI_Error_string(code, text, &length) != MPI_SUCCESS)
        return fmt::format("MPI error {}", code);
    return {text, static_cast<std::size_t>(length)};
}

void throw_mpi_error(int code, char const* call, std::source_location where) {
    int error_class = MPI_ERR_OTHER;
    MPI_Error_class(code, &error_class);
    int rank = -1;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    throw core::CommError{error_class, -1,
                          fmt::format("{} failed on rank {} ({}) at {}:{}", call, rank,
                                      error_string(code), where.file_name(), where.line())};
}

} // namespace evener::comm
