// SPDX-License-Identifier: Apache-2.0
#include "io/token_file.hpp"

#include "core/error.hpp"
#include "io/megatron_index.hpp"
#include "io/token_codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <utility>

namespace evener::io {

using core::IoError;
using detail::load;

namespace {

constexpr std::array<std::pair<TokenFormat, std::string_view>, 5> format_names{{
    {TokenFormat::automatic, "auto"},
    {TokenFormat::llmc, "llmc"},
    {TokenFormat::uint16, "uint16"},
    {TokenFormat::uint32, "uint32"},
    {TokenFormat::megatron, "megatron"},
}};

/// The first three header words of an llm.c file; zeros where the file is shorter than a header.
struct LlmcHeader {
    std::int32_t magic = 0;
    std::int32_t version = 0;
    std::int32_t tokens = 0;
};

LlmcHeader llmc_header(std::span<std::byte const> bytes) {
    if (bytes.size() < static_cast<std::size_t>(detail::llmc_header_bytes))
        return {};
    return {load<std::int32_t>(bytes.data()), load<std::int32_t>(bytes.data() + 4),
            load<std::int32_t>(bytes.data() + 8)};
}

std::optional<detail::LlmcKind> llmc_kind(std::int32_t magic) {
    for (detail::LlmcKind const kind : {detail::llmc_gpt2, detail::llmc_llama3})
        if (kind.magic == magic)
            return kind;
    return std::nullopt;
}

std::string_view strip_suffix(std::string_view path) {
    if (path.ends_with(".bin") || path.ends_with(".idx"))
        path.remove_suffix(4);
    return path;
}

bool is_file(std::string const& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path, ignored);
}

bool has_megatron_index(std::string const& path) {
    std::string const index = std::string{strip_suffix(path)} + ".idx";
    return is_file(index) && detail::has_megatron_magic(MappedFile{index}.bytes());
}

TokenFormat recognize(std::string const& path) {
    bool const may_be_megatron = path.ends_with(".bin") || path.ends_with(".idx") || !is_file(path);
    if (may_be_megatron && has_megatron_index(path))
        return TokenFormat::megatron;
    MappedFile const file{path};
    if (llmc_kind(llmc_header(file.bytes()).magic))
        return TokenFormat::llmc;
    throw IoError{path, "has no header that tells its format (raw token files do not say their "
                        "type) set [data] format to \"uint16\" or \"uint32\""};
}

/// Writes the tokens as int32; returns the index of the first one outside [0, 2^31), or `count`.
template <class T>
std::size_t decode(std::byte const* from, std::size_t count, std::int32_t* to) {
    for (std::size_t i = 0; i < count; ++i) {
        T const value = load<T>(from + i * sizeof(T));
        if (!std::in_range<std::int32_t>(value) || value < T{})
            return i;
        to[i] = static_cast<std::int32_t>(value);
    }
    return count;
}

std::size_t decode(TokenType type, std::byte const* from, std::size_t count, std::int32_t* to) {
    switch (type) {
    case TokenType::uint8:
        return decode<std::uint8_t>(from, count, to);
    case TokenType::int8:
        return decode<std::int8_t>(from, count, to);
    case TokenType::int16:
        return decode<std::int16_t>(from, count, to);
    case TokenType::uint16:
        return decode<std::uint16_t>(from, count, to);
    case TokenType::int32:
        return decode<std::int32_t>(from, count, to);
    case TokenType::uint32:
        return decode<std::uint32_t>(from, count, to);
    case TokenType::int64:
        return decode<std::int64_t>(from, count, to);
    }
    return 0;
}

} // namespace

std::string_view name_of(TokenFormat format) {
    return std::find_if(format_names.begin(), format_names.end(),
                        [&](auto const& entry) { return entry.first == format; })
        ->second;
}

std::optional<TokenFormat> token_format_named(std::string_view name) {
    for (auto const& [format, format_name] : format_names)
        if (format_name == name)
            return format;
    return std::nullopt;
}

int bytes_of(TokenType type) {
    switch (type) {
    case TokenType::uint8:
    case TokenType::int8:
        return 1;
    case TokenType::int16:
    case TokenType::uint16:
        return 2;
    case TokenType::int32:
    case TokenType::uint32:
        return 4;
    case TokenType::int64:
        break;
    }
    return 8;
}

std::string_view name_of(TokenType type) {
    static constexpr std::array<std::string_view, 7> names{"uint8", "int8",   "int16", "uint16",
                                                           "int32", "uint32", "int64"};
    return names[static_cast<std::size_t>(type)];
}

TokenFile::TokenFile(std::string const& path, TokenFormat format)
    : format_{format == TokenFormat::automatic ? recognize(path) : format} {
    if (format_ == TokenFormat::megatron) {
        std::string const prefix{strip_suffix(path)};
        data_ = MappedFile{prefix + ".bin"};
        index_ = MappedFile{prefix + ".idx"};
        open_megatron();
    } else {
        data_ = MappedFile{path};
        if (format_ == TokenFormat::llmc)
            open_llmc();
        else
            open_raw();
    }
    data_.advise(AccessPattern::random);
}

void TokenFile::open_llmc() {
    if (data_.size() < detail::llmc_header_bytes)
        throw IoError{path(), fmt::format("has {} bytes, less than the {} bytes of an llm.c header",
                                          data_.size(), detail::llmc_header_bytes)};
    LlmcHeader const header = llmc_header(data_.bytes());
    auto const kind = llmc_kind(header.magic);
    if (!kind)
        throw IoError{
            path(), fmt::format("has magic number {}; llm.c token files have {} (GPT-2, uint16) "
                                "or {} (Llama-3, uint32)",
                                header.magic, detail::llmc_gpt2.magic, detail::llmc_llama3.magic)};
    if (header.version != kind->version)
        throw IoError{path(), fmt::format("has version {}; llm.c token files with magic number {} "
                                          "have version {}",
                                          header.version, kind->magic, kind->version)};
    std::int64_t const expected =
        detail::llmc_header_bytes + std::int64_t{header.tokens} * kind->token_bytes;
    if (header.tokens < 0 || data_.size() != expected)
        throw IoError{path(),
                      fmt::format("has {} bytes, but its header announces {} tokens of {} "
                                  "bytes, {} bytes in all (cut short or damaged) copy or "
                                  "build it again",
                                  data_.size(), header.tokens, kind->token_bytes, expected)};
    type_ = kind->token_bytes == 2 ? TokenType::uint16 : TokenType::uint32;
    tokens_ = header.tokens;
    if (tokens_ > 0)
        runs_ = {{0, detail::llmc_header_bytes}};
}

void TokenFile::open_raw() {
    type_ = format_ == TokenFormat::uint16 ? TokenType::uint16 : TokenType::uint32;
    LlmcHeader const header = llmc_header(data_.bytes());
    auto const kind = llmc_kind(header.magic);
    if (kind && header.version == kind->version)
        throw IoError{path(),
                      fmt::format("starts with an llm.c header, which would be read as tokens; set "
                                  "[data] format to \"llmc\" instead of \"{}\"",
                                  name_of(format_))};
    if (data_.size() % bytes_of(type_) != 0)
        throw IoError{path(), fmt::format("has {} bytes, which is not a whole number of {} tokens "
                                          "(cut short, or of another type)",
                                          data_.size(), name_of(type_))};
    tokens_ = data_.size() / bytes_of(type_);
    if (tokens_ > 0)
        runs_ = {{0, 0}};
}

void TokenFile::open_megatron() {
    detail::MegatronIndex index = detail::read_megatron_index(index_, data_.size());
    index_.require_unchanged();
    type_ = index.type;
    tokens_ = index.tokens;
    runs_ = std::move(index.runs);
}

void TokenFile::read(std::int64_t begin, std::span<std::int32_t> tokens) const {
    auto remaining = static_cast<std::int64_t>(tokens.size());
    EVENER_EXPECT(begin >= 0 && begin <= tokens_ && remaining <= tokens_ - begin);
    if (remaining == 0)
        return;
    auto run = std::prev(std::upper_bound(runs_.begin(), runs_.end(), begin,
                                          [](std::int64_t token, TokenRun const& candidate) {
                                              return token < candidate.first_token;
                                          }));
    std::int32_t* to = tokens.data();
    while (remaining > 0) {
        std::int64_t const run_end =
            std::next(run) == runs_.end() ? tokens_ : std::next(run)->first_token;
        std::int64_t const count = std::min(remaining, run_end - begin);
        std::byte const* const from =
            data_.bytes().data() + run->byte_offset + (begin - run->first_token) * bytes_of(type_);
        auto const good =
            static_cast<std::int64_t>(decode(type_, from, static_cast<std::size_t>(count), to));
        if (good != count)
            throw IoError{path(), fmt::format("token {} is not between 0 and 2^31 - 1 (a damaged "
                                              "file, or not of type {})",
                                              begin + good, name_of(type_))};
        begin += count;
        to += count;
        remaining -= count;
        ++run;
    }
    data_.require_unchanged();
}

void TokenFile::check_tokens(std::int64_t vocabulary) const {
    data_.advise(AccessPattern::sequential);
    std::vector<std::int32_t> chunk(std::size_t{1} << 16);
    for (std::int64_t begin = 0; begin < tokens_;) {
        auto const count = std::min(tokens_ - begin, static_cast<std::int64_t>(chunk.size()));
        std::span const part{chunk.data(), static_cast<std::size_t>(count)};
        read(begin, part);
        auto const bad = std::find_if(part.begin(), part.end(),
                                      [&](std::int32_t token) { return token >= vocabulary; });
        if (bad != part.end())
            throw IoError{path(),
                          fmt::format("token {} is {}, which is not below the vocabulary of {} "
                                      "(another tokenizer, or not of type {}) set [model] "
                                      "vocabulary or [data] format to what the file holds",
                                      begin + (bad - part.begin()), *bad, vocabulary,
                                      name_of(type_))};
        begin += count;
    }
    data_.advise(AccessPattern::random);
}

std::vector<std::span<std::byte const>> TokenFile::mapped_bytes() const {
    std::vector<std::span<std::byte const>> files{data_.bytes()};
    if (!index_.bytes().empty())
        files.push_back(index_.bytes());
    return files;
}

} // namespace evener::io
