// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which rank reads files for which others: sites need not share a file system. Example: of six
// ranks 0, 1 and 3 see the data; 0 reads for 2, 1 for 4 and 3 for 5.

#include "comm/communicator.hpp"
#include "core/error.hpp"

#include <optional>
#include <string>
#include <vector>

namespace evener::runtime {

class FileReaders {
  public:
    /// `sees`: by rank, whether it sees the files; at least one does.
    explicit FileReaders(std::vector<bool> const& sees);

    /// Each rank reads for itself.
    bool all_see() const;
    bool sees(int rank) const { return reader_of(rank) == rank; }
    int reader_of(int rank) const { return readers_[static_cast<std::size_t>(rank)]; }
    /// The ranks that do not see the files and that `rank` reads for, ascending.
    std::vector<int> served_by(int rank) const;

  private:
    std::vector<int> readers_; ///< by rank
};

/// What a rank that sees files sends to one that does not: some bytes, or why there are none.
void send_bytes(comm::Communicator const& comm, std::span<std::byte const> bytes, int rank);
void send_failure(comm::Communicator const& comm, std::string_view reason, int rank);
/// Fills `bytes` with what `rank` sends, or returns its reason for sending none.
std::optional<std::string> receive_bytes(comm::Communicator const& comm, std::span<std::byte> bytes,
                                         int rank);

} // namespace evener::runtime
