// SPDX-License-Identifier: Apache-2.0
#include "io/megatron_index.hpp"

#include "core/error.hpp"
#include "io/token_codec.hpp"

#include <fmt/format.h>

#include <string_view>

namespace evener::io::detail {

using core::IoError;

namespace {

constexpr std::string_view magic{"MMIDIDX\0\0", 9};
constexpr std::int64_t header_bytes = 34;

TokenType token_type(MappedFile const& index, int code) {
    switch (code) {
    case 1:
        return TokenType::uint8;
    case 2:
        return TokenType::int8;
    case 3:
        return TokenType::int16;
    case 4:
        return TokenType::int32;
    case 5:
        return TokenType::int64;
    case 8:
        return TokenType::uint16;
    case 6:
    case 7:
        throw IoError{index.path(), "holds floating-point data, not tokens"};
    default:
        throw IoError{index.path(), fmt::format("has the unknown token type code {}", code)};
    }
}

/// Where the arrays of the index start; the constructor proves that they fit.
struct Layout {
    std::int64_t sequences;
    std::int64_t documents;
    std::byte const* lengths;
    std::byte const* pointers;
    std::byte const* document_starts;
    std::byte const* modes; // null: none

    explicit Layout(MappedFile const& index) {
        std::byte const* const base = index.bytes().data();
        auto const stated_sequences = load<std::uint64_t>(base + 18);
        auto const stated_documents = load<std::uint64_t>(base + 26);
        // Bounding the counts by the size first keeps the products below 2^63.
        auto const limit = static_cast<std::uint64_t>(index.size());
        bool fits = stated_sequences <= limit / 12 && stated_documents <= limit / 8;
        std::int64_t without_modes = 0;
        if (fits) {
            sequences = static_cast<std::int64_t>(stated_sequences);
            documents = static_cast<std::int64_t>(stated_documents);
            without_modes = header_bytes + 12 * sequences + 8 * documents;
            fits = index.size() == without_modes || index.size() == without_modes + sequences;
        }
        if (!fits)
            throw IoError{index.path(),
                          fmt::format("has {} bytes, which does not fit the {} sequences and {} "
                                      "document entries it announces (cut short or damaged) copy "
                                      "or build it again",
                                      index.size(), stated_sequences, stated_documents)};
        lengths = base + header_bytes;
        pointers = lengths + 4 * sequences;
        document_starts = pointers + 8 * sequences;
        modes = index.size() == without_modes ? nullptr : base + without_modes;
    }
};

/// Documents must tile the sequences in order; then document order is sequence order.
void check_documents(MappedFile const& index, Layout const& layout) {
    std::int64_t previous = 0;
    for (std::int64_t d = 0; d < layout.documents; ++d) {
        auto const start = load<std::int64_t>(layout.document_starts + 8 * d);
        if (start < previous || start > layout.sequences || (d == 0 && start != 0))
            throw IoError{index.path(),
                          fmt::format("document {} starts at sequence {}, which is not between {} "
                                      "and {} (the index is damaged) build it again",
                                      d, start, previous, d == 0 ? 0 : layout.sequences)};
        previous = start;
    }
    if (layout.documents == 0 || previous != layout.sequences)
        throw IoError{index.path(),
                      fmt::format("the documents end at sequence {} of {} (the index is damaged) "
                                  "build it again",
                                  previous, layout.sequences)};
}

void check_modes(MappedFile const& index, Layout const& layout) {
    if (layout.modes == nullptr)
        return;
    for (std::int64_t s = 0; s < layout.sequences; ++s)
        if (layout.modes[s] != std::byte{0})
            throw IoError{index.path(),
                          fmt::format("sequence {} has mode {} (a multimodal dataset; only text "
                                      "can be read)",
                                      s, std::to_integer<int>(layout.modes[s]))};
}

} // namespace

bool has_megatron_magic(std::span<std::byte const> bytes) {
    return bytes.size() >= magic.size() &&
           std::memcmp(bytes.data(), magic.data(), magic.size()) == 0;
}

MegatronIndex read_megatron_index(MappedFile const& index, std::int64_t data_bytes) {
    if (!has_megatron_magic(index.bytes()))
        throw IoError{index.path(), "is not a Megatron index (it does not start with 'MMIDIDX')"};
    if (index.size() < header_bytes)
        throw IoError{index.path(), fmt::format("has {} bytes, less than the {} bytes of a "
                                                "Megatron index header",
                                                index.size(), header_bytes)};
    auto const version = load<std::uint64_t>(index.bytes().data() + 9);
    if (version != 1)
        throw IoError{index.path(),
                      fmt::format("has index version {}; only version 1 can be read", version)};
    MegatronIndex result;
    result.type = token_type(index, load<std::uint8_t>(index.bytes().data() + 17));
    std::int64_t const token_bytes = bytes_of(result.type);

    Layout const layout{index};
    check_documents(index, layout);
    check_modes(index, layout);

    std::int64_t expected = -1; // byte offset at which the last run would go on
    for (std::int64_t s = 0; s < layout.sequences; ++s) {
        auto const length = load<std::int32_t>(layout.lengths + 4 * s);
        auto const pointer = load<std::int64_t>(layout.pointers + 8 * s);
        // length * token_bytes < 2^34 and pointer <= data_bytes, so the sum cannot overflow.
        if (length < 0 || pointer < 0 || pointer > data_bytes ||
            length * token_bytes > data_bytes - pointer)
            throw IoError{index.path(),
                          fmt::format("sequence {} has {} tokens from byte {} on, but the .bin "
                                      "file has {} bytes (the two files do not belong together, "
                                      "or one is cut short)",
                                      s, length, pointer, data_bytes)};
        if (length == 0)
            continue;
        if (pointer != expected)
            result.runs.push_back({result.tokens, pointer});
        expected = pointer + length * token_bytes;
        result.tokens += length; // at most 2^31 a sequence, 12 index bytes each: below 2^63
    }
    return result;
}

} // namespace evener::io::detail
