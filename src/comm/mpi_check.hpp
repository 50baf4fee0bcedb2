// SPDX-License-Identifier: Apache-2.0
#pragma once

// EVENER_MPI(call): every MPI call goes through it; an error becomes a core::CommError with the
// call's text, MPI's own words and the rank. Needs MPI_ERRORS_RETURN (MpiSession sets it).

#include "core/error.hpp"

#include <mpi.h>

#include <string>

namespace evener::comm {

/// MPI's text for an error code.
std::string error_string(int code);

[[noreturn]] void throw_mpi_error(int code, char const* call, std::source_location where);

} // namespace evener::comm

#define EVENER_MPI(call)                                                                           \
    do {                                                                                           \
        if (int const evener_code = (call); evener_code != MPI_SUCCESS)                            \
            ::evener::comm::throw_mpi_error(evener_code, #call, std::source_location::current());  \
    } while (false)
