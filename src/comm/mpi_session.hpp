// SPDX-License-Identifier: Apache-2.0
#pragma once

// MPI from start to end. Declared first in main, so that all that uses MPI is gone before it ends.
// While an exception unwinds MPI is left as it is: finalizing would wait for ranks that wait for
// us; main prints the message and calls abort_job.

#include "comm/communicator.hpp"
#include "core/error.hpp"

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace evener::comm {

class MpiSession {
  public:
    /// Starts MPI with MPI_THREAD_MULTIPLE (or takes over a running MPI, which it then does not
    /// end). Throws core::CommError when that level is not there, or when the launcher announced
    /// more ranks than MPI_COMM_WORLD has.
    MpiSession(int* argc, char*** argv);
    MpiSession(MpiSession const&) = delete;
    MpiSession& operator=(MpiSession const&) = delete;
    ~MpiSession();

    int rank() const noexcept { return world_.rank(); }
    int size() const noexcept { return world_.size(); }
    /// A duplicate of MPI_COMM_WORLD for the main thread.
    Communicator const& world() const noexcept { return world_; }
    /// The ranks that share this node's memory, in order of rank.
    Communicator const& node() const noexcept { return node_; }
    /// Host of every rank, by rank.
    std::vector<std::string> const& hosts() const noexcept { return hosts_; }
    /// One line: library and version.
    std::string const& library() const noexcept { return library_; }

    /// Ends all ranks at once.
    [[noreturn]] static void abort_job(core::ExitCode code);

  private:
    struct Runtime { ///< starts and ends MPI; before and after the communicators
        Runtime(int* argc, char*** argv);
        Runtime(Runtime const&) = delete;
        Runtime& operator=(Runtime const&) = delete;
        ~Runtime();
        bool owned = false;
        int exceptions = 0; ///< unwinding when we started
    };
    Runtime runtime_;
    Communicator world_;
    Communicator node_;
    std::vector<std::string> hosts_;
    std::string library_;
};

/// What a launcher says about the number of ranks.
struct Announcement {
    std::string variable;
    int ranks = 0;
};

/// Reads the launcher's environment through `lookup` (null: not set).
std::optional<Announcement> announced_ranks(std::function<char const*(char const*)> const& lookup);

/// What to say before MPI starts where srun started several processes without telling them of each
/// other by PMIx or PMI; else "". MPI may then abort with a message of its own, or every process
/// believes to be alone.
std::string missing_pmi(std::function<char const*(char const*)> const& lookup);

} // namespace evener::comm
