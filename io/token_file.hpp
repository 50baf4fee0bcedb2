// SPDX-License-Identifier: Apache-2.0
#pragma once

// One memory-mapped, read-only file of tokens, whatever its format: a stream of non-negative
// 32-bit tokens with 64-bit positions. Opening checks the whole structure, so that afterwards only
// token values can be wrong. Formats (all little-endian):
//   llmc      256 int32 header (magic, version, tokens), then uint16 (GPT-2: 20240520, version 1)
//             or uint32 tokens (Llama-3: 20240801, version 7); the file size must be exact
//   uint16    nanoGPT: raw tokens without a header, so the type must be stated by the user
//   uint32    the same with four bytes
//   megatron  PREFIX.bin with the tokens, PREFIX.idx with the sequences; read in document order

#include "io/mapped_file.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace evener::io {

/// `automatic` recognizes llmc and megatron, and refuses raw files: they do not say their type.
enum class TokenFormat { automatic, llmc, uint16, uint32, megatron };

/// The word for it in a job: auto, llmc, uint16, uint32, megatron.
std::string_view name_of(TokenFormat format);
/// The format of that name, or nothing.
std::optional<TokenFormat> token_format_named(std::string_view name);

/// How one token is stored.
enum class TokenType : std::uint8_t { uint8, int8, int16, uint16, int32, uint32, int64 };

int bytes_of(TokenType type);
std::string_view name_of(TokenType type);

/// Tokens that lie one after the other: the stream from `first_token` on is at `byte_offset`.
struct TokenRun {
    std::int64_t first_token;
    std::int64_t byte_offset;
};

class TokenFile {
  public:
    /// Throws core::IoError saying what is wrong and what to do. A Megatron file may be given as
    /// its prefix, its .bin or its .idx.
    explicit TokenFile(std::string const& path, TokenFormat format = TokenFormat::automatic);

    std::string const& path() const noexcept { return data_.path(); }
    /// Never `automatic`.
    TokenFormat format() const noexcept { return format_; }
    TokenType type() const noexcept { return type_; }
    std::int64_t tokens() const noexcept { return tokens_; }

    /// Tokens [begin, begin + tokens.size()); the range must lie in the file. Throws core::IoError
    /// for a stored value outside [0, 2^31), naming its position.
    void read(std::int64_t begin, std::span<std::int32_t> tokens) const;

    /// Scans the file; throws core::IoError naming the first token outside [0, vocabulary).
    void check_tokens(std::int64_t vocabulary) const;

    /// The bytes of the file, and of its index where it has one (for fingerprints).
    std::vector<std::span<std::byte const>> mapped_bytes() const;

  private:
    void open_llmc();
    void open_raw();
    void open_megatron();

    MappedFile data_;
    MappedFile index_;
    TokenFormat format_;
    TokenType type_ = TokenType::uint16;
    std::int64_t tokens_ = 0;
    std::vector<TokenRun>
        runs_; // by first_token, which is strictly rising; none for an empty stream
};

} // namespace evener::io
