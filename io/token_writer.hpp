// SPDX-License-Identifier: Apache-2.0
#pragma once

// Writes a stream of tokens in the llm.c format: uint16 (GPT-2 header) up to a vocabulary of 65,536
// tokens, uint32 (Llama-3 header) above. The format counts tokens in an int32, so a longer stream
// becomes several shards: `NAME.bin` if one is enough, else `NAME_000000.bin`, `NAME_000001.bin`,
// ..., which `NAME_*.bin` finds in order. Nothing appears under its final name before close().

#include "io/files.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace evener::io {

class TokenWriter {
  public:
    static constexpr std::int64_t format_limit = 2147483647; // tokens a shard, an int32

    /// `path` ends in ".bin". Throws core::IoError when the file cannot be created.
    TokenWriter(std::string path, std::int64_t vocabulary,
                std::int64_t max_shard_tokens = format_limit);

    /// Throws core::IoError for a token outside [0, vocabulary) and when the disk is full.
    void append(std::span<std::int32_t const> tokens);
    std::int64_t tokens() const noexcept { return tokens_; }

    /// Completes the shards, renames them into place and returns their paths. Throws core::IoError
    /// when shards of an earlier, differently cut stream would be left beside them.
    std::vector<std::string> close();

  private:
    void start_shard();
    void flush();
    void finish_shard();
    std::string shard_path(std::size_t shard) const;
    void check_leftovers() const;

    std::string path_;
    std::int64_t vocabulary_;
    std::int64_t max_shard_tokens_;
    std::int64_t tokens_ = 0;
    std::int64_t shard_tokens_ = 0;
    std::vector<AtomicFile> shards_; // the last one is being written
    std::vector<std::byte> buffer_;
};

} // namespace evener::io
