// SPDX-License-Identifier: Apache-2.0
#pragma once

// Little-endian loads from unaligned bytes, and the constants of the llm.c token format, shared by
// its reader and its writer.

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace evener::io::detail {

static_assert(std::endian::native == std::endian::little,
              "token files are little-endian and are read by copying bytes");

/// The caller has checked that sizeof(T) bytes are there.
template <class T>
T load(std::byte const* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

/// llm.c: 256 int32 = magic, version, token count, zeros.
inline constexpr std::int64_t llmc_header_words = 256;
inline constexpr std::int64_t llmc_header_bytes = 4 * llmc_header_words;

struct LlmcKind {
    std::int32_t magic;
    std::int32_t version;
    int token_bytes;
};
inline constexpr LlmcKind llmc_gpt2{20240520, 1, 2};
inline constexpr LlmcKind llmc_llama3{20240801, 7, 4};

} // namespace evener::io::detail
