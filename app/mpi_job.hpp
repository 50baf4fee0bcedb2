// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where exceptions become messages and exit codes. An error that all ranks meet at the same place
// is printed once and MPI ends in order; any other error ends the whole job at once.

#include "comm/mpi_session.hpp"
#include "core/error.hpp"

#include <functional>

namespace evener::app {

/// Runs a subcommand; returns what main returns.
int run_guarded(std::function<core::ExitCode()> const& command);

/// Starts MPI, runs `body` and ends MPI. The code of `body`, the same on all ranks, is returned by
/// rank 0 alone, and the others return 0: a launcher kills the rest as soon as one rank returns
/// something else. A core::AgreedError is one that every rank throws, and so is a core::ConfigError
/// (all ranks check the same input): rank 0 prints it and returns its code. Any other exception:
/// `rank N: message`, then MPI_Abort.
core::ExitCode run_mpi_job(std::function<core::ExitCode(comm::MpiSession const&)> const& body);

/// Runs `work` where `active`, then all ranks agree. Throws core::AgreedError on every rank when
/// it threw a core::Error anywhere; the exit code stays that of the error.
void together(comm::MpiSession const& mpi, bool active, std::function<void()> const& work);

} // namespace evener::app
