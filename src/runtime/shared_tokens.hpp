// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tokens for ranks that do not see the data files: before a pass a rank that does sends them the
// sequences that they will read, so that they read the same tokens from their memory.

#include "comm/communicator.hpp"
#include "runtime/file_readers.hpp"
#include "runtime/tokens.hpp"

#include <cstddef>
#include <map>
#include <vector>

namespace evener::runtime {

class SharedTokens final : public TokenSource {
  public:
    /// Collective over `world`. `own` reads the files; null on ranks that do not see them.
    /// `sequences`: all that this rank reads of a batch, ascending and once each, the same in every
    /// step.
    SharedTokens(comm::Communicator const& world, FileReaders const& readers,
                 TokenSource const* own, std::vector<std::int64_t> sequences,
                 std::int64_t sequence_length);

    /// Collective, between passes. Throws what reading the files throws, on the rank that reads,
    /// and core::IoError with the same words on those that it reads for.
    void prepare(std::int64_t step) const override;
    void read(std::int64_t step, std::int64_t sequence, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const override;
    std::int64_t valid_targets(std::int64_t step, std::int64_t sequence) const override;

  private:
    using Rows = std::vector<std::int32_t>; ///< of each sequence the inputs, then the targets

    void send(std::int64_t step) const;
    Rows receive(std::int64_t step) const;
    std::int32_t const* row(std::int64_t step, std::int64_t sequence) const;
    /// Calls use(first, count) for runs of `sequences` sequences that fit a message.
    template <class Use>
    void for_each_message(std::size_t sequences, Use const& use) const;

    comm::Communicator comm_;
    TokenSource const* own_;
    int reader_; ///< rank that sends to this one; itself where it sees the files
    std::vector<int> served_;
    std::vector<std::int64_t> sequences_;
    std::vector<std::vector<std::int64_t>> served_sequences_; ///< of each served rank
    std::size_t length_;
    /// By step, the one prepared last and the next. On a rank that sees the files the rows are
    /// empty and tell what the others have.
    mutable std::map<std::int64_t, Rows> held_;
};

} // namespace evener::runtime
