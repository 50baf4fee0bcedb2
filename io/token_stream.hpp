// SPDX-License-Identifier: Apache-2.0
#pragma once

// Several token files as one list of training samples of equal length. A shard with n tokens gives
// floor((n - 1) / T) samples: sample k of a shard covers its tokens [k T, k T + T], T inputs and
// the T tokens that follow each. Windows do not cross shards, so what a sample holds depends on T
// and the files only. Example, T = 4: a shard of 10 tokens gives the samples 0..4 and 4..8; token 9
// is never used.

#include "io/token_file.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace evener::io {

/// Expands patterns (`*`, `?`, `[a-z]`, `{a,b}`, `~`) to files: the patterns in the order given,
/// the matches of each sorted by name; an existing path stands for itself whatever characters it
/// has, and the .idx beside a matched Megatron .bin is left out. Throws core::IoError where a
/// pattern matches nothing or a file is named twice.
std::vector<std::string> expand_patterns(std::vector<std::string> const& patterns);

class TokenDataset {
  public:
    /// Opens every shard. Targets equal to `ignore_id` are read as -1 (no loss). Throws
    /// core::IoError, also when no shard is long enough for one sample.
    TokenDataset(std::vector<std::string> const& patterns, TokenFormat format,
                 std::int64_t sequence_length, std::optional<std::int32_t> ignore_id = {});

    std::int64_t samples() const noexcept { return samples_; }
    std::int64_t sequence_length() const noexcept { return sequence_length_; }
    /// Of all shards together, also those at a shard's end that belong to no sample.
    std::int64_t tokens() const noexcept { return tokens_; }
    std::vector<TokenFile> const& shards() const noexcept { return shards_; }

    /// Fills `inputs` and `targets` (sequence_length each) with one sample of [0, samples()).
    void read(std::int64_t sample, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const;
    /// How many targets of the sample are not -1.
    std::int64_t valid_targets(std::int64_t sample) const;

    /// Scans every shard; throws core::IoError naming the first token outside [0, vocabulary).
    void check_tokens(std::int64_t vocabulary) const;

    /// XXH3-128 (32 hex digits) over the sizes, token types and first and last MiB of the shards in
    /// order: tells whether a resumed run sees the same data, without reading all of it.
    std::string fingerprint() const;

  private:
    std::vector<TokenFile> shards_;
    std::vector<std::int64_t> first_sample_; // per shard
    std::int64_t sequence_length_;
    std::optional<std::int32_t> ignore_id_;
    std::int64_t samples_ = 0;
    std::int64_t tokens_ = 0;
};

} // namespace evener::io
