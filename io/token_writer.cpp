// SPDX-License-Identifier: Apache-2.0
#include "io/token_writer.hpp"

#include "core/error.hpp"
#include "io/token_codec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

namespace evener::io {

using core::IoError;

namespace {

constexpr std::size_t buffer_bytes = std::size_t{1} << 20;

detail::LlmcKind kind_for(std::int64_t vocabulary) {
    return vocabulary <= 65536 ? detail::llmc_gpt2 : detail::llmc_llama3;
}

template <class T>
void store(std::vector<std::byte>& to, T value) {
    auto const* const bytes = reinterpret_cast<std::byte const*>(&value);
    to.insert(to.end(), bytes, bytes + sizeof value);
}

bool exists(std::string const& path) {
    std::error_code ignored;
    return std::filesystem::exists(path, ignored);
}

} // namespace

TokenWriter::TokenWriter(std::string path, std::int64_t vocabulary, std::int64_t max_shard_tokens)
    : path_{std::move(path)}, vocabulary_{vocabulary}, max_shard_tokens_{max_shard_tokens} {
    EVENER_EXPECT(path_.ends_with(".bin"));
    EVENER_EXPECT(vocabulary >= 1 && vocabulary <= format_limit);
    EVENER_EXPECT(max_shard_tokens >= 1 && max_shard_tokens <= format_limit);
    buffer_.reserve(buffer_bytes + 4);
    start_shard();
}

void TokenWriter::start_shard() {
    shards_.emplace_back(path_);
    shard_tokens_ = 0;
    std::vector<std::byte> const header(static_cast<std::size_t>(detail::llmc_header_bytes));
    shards_.back().append(header); // the real one follows when the count is known
}

void TokenWriter::append(std::span<std::int32_t const> tokens) {
    bool const narrow = kind_for(vocabulary_).token_bytes == 2;
    for (std::int32_t const token : tokens) {
        if (token < 0 || token >= vocabulary_)
            throw IoError{path_, fmt::format("token {} of the stream is {}, not below the "
                                             "vocabulary of {}",
                                             tokens_, token, vocabulary_)};
        if (shard_tokens_ == max_shard_tokens_) {
            finish_shard();
            start_shard();
        }
        if (narrow)
            store(buffer_, static_cast<std::uint16_t>(token));
        else
            store(buffer_, static_cast<std::uint32_t>(token));
        if (buffer_.size() >= buffer_bytes)
            flush();
        ++shard_tokens_;
        ++tokens_;
    }
}

void TokenWriter::flush() {
    shards_.back().append(buffer_);
    buffer_.clear();
}

void TokenWriter::finish_shard() {
    flush();
    detail::LlmcKind const kind = kind_for(vocabulary_);
    std::array<std::int32_t, 3> const header{kind.magic, kind.version,
                                             static_cast<std::int32_t>(shard_tokens_)};
    shards_.back().overwrite(0, std::as_bytes(std::span{header}));
}

std::string TokenWriter::shard_path(std::size_t shard) const {
    return fmt::format("{}_{:06}.bin", path_.substr(0, path_.size() - 4), shard);
}

void TokenWriter::check_leftovers() const {
    // Shards are numbered without gaps, so one look beyond our own is enough.
    bool const single = shards_.size() == 1;
    std::string const other = single ? shard_path(0) : path_;
    std::string const beyond = shard_path(shards_.size());
    for (std::string const& path : {other, beyond})
        if (exists(path))
            throw IoError{path, fmt::format("is a shard of an earlier run that the {} new one(s) "
                                            "do not replace; remove it first",
                                            shards_.size())};
}

std::vector<std::string> TokenWriter::close() {
    finish_shard();
    check_leftovers();
    std::vector<std::string> paths;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        paths.push_back(shards_.size() == 1 ? path_ : shard_path(i));
        shards_[i].commit_as(paths.back());
    }
    return paths;
}

} // namespace evener::io
