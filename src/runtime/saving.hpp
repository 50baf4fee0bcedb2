// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checkpoints of a running job: the ranks of a node copy their slices into the node's snapshot, one
// writer per node writes them, rank 0 commits. Every phase ends in agreement, so that one rank's
// error is the same message on all.

#include "checkpoints/store.hpp"
#include "comm/mpi_session.hpp"
#include "runtime/parameters.hpp"

#include <memory>

namespace evener::runtime {

class Saver {
  public:
    /// Collective. Allocates the snapshot of `kinds` for the node (none where a rank is alone).
    Saver(comm::MpiSession const& mpi, Session const& session, std::vector<std::string> kinds);

    /// Collective. Writes and commits one checkpoint in `out`, then keeps the newest `keep` (0:
    /// all). `description` matters on rank 0; its kinds and tensors are filled in. Throws
    /// core::AgreedError on every rank, with the words of the rank that failed.
    void save(std::string const& out, checkpoints::Description description, int keep);

  private:
    void copy_to_snapshot();
    checkpoints::WriterResult write(std::string const& folder);
    void agree(bool ok, std::string const& message) const;

    comm::MpiSession const& mpi_;
    Session const& session_;
    std::vector<std::string> kinds_;
    std::vector<int> node_ranks_; ///< world ranks of this node, ascending
    int writer_ = 0;              ///< number of this node's writer
    std::int64_t snapshot_bytes_ = 0;
    std::unique_ptr<comm::SharedMemory> snapshot_;
};

} // namespace evener::runtime
