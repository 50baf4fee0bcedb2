// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which ranks see which files: sites need not share a file system.

#include "app/mpi_job.hpp"

#include <string>
#include <vector>

namespace evener::app {

/// By rank what each says of itself. Collective.
std::vector<bool> by_rank(comm::MpiSession const& mpi, bool mine);

/// By rank, whether it reads in `folder`, which exists for rank 0, what rank 0 writes there now,
/// and can write there itself. Takes two seconds where some do not. Throws core::AgreedError when
/// rank 0 cannot. Collective.
std::vector<bool> ranks_that_share(comm::MpiSession const& mpi, std::string const& folder);

/// By rank, whether `path` has this content there. Collective.
std::vector<bool> ranks_with_file(comm::MpiSession const& mpi, std::string const& path,
                                  std::string const& content);

/// "4,5 (b1) 6,7 (b2)": the ranks that are false, by host; "" where all are true.
std::string blind_ranks(comm::MpiSession const& mpi, std::vector<bool> const& sees);

} // namespace evener::app
