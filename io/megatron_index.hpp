// SPDX-License-Identifier: Apache-2.0
#pragma once

// The .idx half of a Megatron-LM indexed dataset: which bytes of the .bin are the token sequences.
// Layout (little-endian, no padding): "MMIDIDX\0\0", u64 version 1, u8 token type, u64 sequences S,
// u64 document entries D, i32 length[S] in tokens, i64 pointer[S] in bytes, i64 document[D] =
// first sequence of each document and S at the end, and optionally i8 mode[S] (multimodal).

#include "io/mapped_file.hpp"
#include "io/token_file.hpp"

#include <cstdint>
#include <vector>

namespace evener::io::detail {

struct MegatronIndex {
    TokenType type = TokenType::uint16;
    std::int64_t tokens = 0;
    /// Sequences that lie one after the other in the .bin are one run.
    std::vector<TokenRun> runs;
};

bool has_megatron_magic(std::span<std::byte const> bytes);

/// Reads and checks the whole index; every sequence lies within `data_bytes` bytes of the .bin.
MegatronIndex read_megatron_index(MappedFile const& index, std::int64_t data_bytes);

} // namespace evener::io::detail
