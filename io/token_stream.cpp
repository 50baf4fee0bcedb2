// SPDX-License-Identifier: Apache-2.0
#include "io/token_stream.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <glob.h>
#include <xxhash.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

namespace evener::io {

using core::IoError;

namespace {

/// Matches of one pattern, sorted by byte value (glob's own order depends on the locale).
std::vector<std::string> matches_of(std::string const& pattern) {
    std::error_code ignored;
    if (std::filesystem::exists(pattern, ignored))
        return {pattern};
    glob_t found{};
    int const result =
        ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_BRACE | GLOB_TILDE, nullptr, &found);
    std::unique_ptr<glob_t, decltype(&::globfree)> const guard{&found, &::globfree};
    if (result != 0 && result != GLOB_NOMATCH)
        throw IoError{pattern, "cannot be expanded (a folder cannot be read, or out of memory)"};
    std::vector<std::string> paths;
    if (result == 0)
        paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    std::sort(paths.begin(), paths.end());
    paths.erase(std::unique(paths.begin(), paths.end()), paths.end()); // braces may repeat a match
    return paths;
}

/// `data*` matches both halves of a Megatron dataset; the .bin stands for it.
void drop_megatron_indices(std::vector<std::string>& paths) {
    auto const has_its_bin = [&](std::string const& path) {
        return path.ends_with(".idx") &&
               std::binary_search(paths.begin(), paths.end(),
                                  path.substr(0, path.size() - 4) + ".bin");
    };
    std::vector<std::string> kept;
    std::remove_copy_if(paths.begin(), paths.end(), std::back_inserter(kept), has_its_bin);
    paths = std::move(kept);
}

bool is_megatron_prefix(std::string const& path) {
    std::error_code ignored;
    return std::filesystem::is_regular_file(path + ".idx", ignored);
}

} // namespace

std::vector<std::string> expand_patterns(std::vector<std::string> const& patterns) {
    std::vector<std::string> paths;
    std::map<std::filesystem::path, std::string> pattern_of; // by the file's canonical path
    for (std::string const& pattern : patterns) {
        std::vector<std::string> matches = matches_of(pattern);
        if (matches.empty() && is_megatron_prefix(pattern))
            matches = {pattern};
        if (matches.empty())
            throw IoError{pattern, "no such file (and as a pattern it matches none)"};
        drop_megatron_indices(matches);
        for (std::string& path : matches) {
            std::error_code ignored;
            auto const [earlier, is_new] =
                pattern_of.emplace(std::filesystem::weakly_canonical(path, ignored), pattern);
            if (!is_new)
                throw IoError{path, fmt::format("is named twice, by \"{}\" and by \"{}\"; its "
                                                "tokens would be trained on twice an epoch",
                                                earlier->second, pattern)};
            paths.push_back(std::move(path));
        }
    }
    return paths;
}

TokenDataset::TokenDataset(std::vector<std::string> const& patterns, TokenFormat format,
                           std::int64_t sequence_length, std::optional<std::int32_t> ignore_id)
    : sequence_length_{sequence_length}, ignore_id_{ignore_id} {
    EVENER_EXPECT(sequence_length > 0);
    EVENER_EXPECT(!patterns.empty());
    std::int64_t longest = 0;
    std::map<std::string, std::string> opened; // X, X.bin and X.idx name one Megatron dataset
    for (std::string const& path : expand_patterns(patterns)) {
        TokenFile shard{path, format};
        auto const [earlier, is_new] = opened.emplace(shard.path(), path);
        if (!is_new)
            throw IoError{path, fmt::format("is the same dataset as \"{}\"; its tokens would be "
                                            "trained on twice an epoch",
                                            earlier->second)};
        first_sample_.push_back(samples_);
        samples_ += std::max<std::int64_t>(shard.tokens() - 1, 0) / sequence_length;
        tokens_ += shard.tokens();
        longest = std::max(longest, shard.tokens());
        shards_.push_back(std::move(shard));
    }
    if (samples_ == 0)
        throw IoError{shards_.front().path(),
                      fmt::format("holds no sample (a sample of sequence length {} needs {} "
                                  "tokens, the longest of {} file(s) has {}) use more data or a "
                                  "shorter sequence",
                                  sequence_length, sequence_length + 1, shards_.size(), longest)};
}

void TokenDataset::read(std::int64_t sample, std::span<std::int32_t> inputs,
                        std::span<std::int32_t> targets) const {
    EVENER_EXPECT(sample >= 0 && sample < samples_);
    EVENER_EXPECT(static_cast<std::int64_t>(inputs.size()) == sequence_length_);
    EVENER_EXPECT(static_cast<std::int64_t>(targets.size()) == sequence_length_);
    // The last shard that starts at or before the sample; shards without samples are skipped over.
    auto const next = std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
    auto const shard = static_cast<std::size_t>(next - first_sample_.begin() - 1);
    std::int64_t const begin = (sample - first_sample_[shard]) * sequence_length_;
    shards_[shard].read(begin, inputs);
    // Targets are the inputs one place on, and one more token.
    std::copy(inputs.begin() + 1, inputs.end(), targets.begin());
    shards_[shard].read(begin + sequence_length_, targets.last(1));
    if (ignore_id_)
        std::replace(targets.begin(), targets.end(), *ignore_id_, std::int32_t{-1});
}

std::int64_t TokenDataset::valid_targets(std::int64_t sample) const {
    EVENER_EXPECT(sample >= 0 && sample < samples_);
    if (!ignore_id_)
        return sequence_length_;
    auto const length = static_cast<std::size_t>(sequence_length_);
    std::vector<std::int32_t> inputs(length);
    std::vector<std::int32_t> targets(length);
    read(sample, inputs, targets);
    return sequence_length_ - std::count(targets.begin(), targets.end(), -1);
}

void TokenDataset::check_tokens(std::int64_t vocabulary) const {
    for (TokenFile const& shard : shards_)
        shard.check_tokens(vocabulary);
}

std::string TokenDataset::fingerprint() const {
    constexpr std::size_t edge = std::size_t{1} << 20;
    std::unique_ptr<XXH3_state_t, decltype(&::XXH3_freeState)> const state{::XXH3_createState(),
                                                                           &::XXH3_freeState};
    ::XXH3_128bits_reset(state.get());
    auto const add = [&](void const* data, std::size_t bytes) {
        ::XXH3_128bits_update(state.get(), data, bytes);
    };
    for (TokenFile const& shard : shards_) {
        std::int64_t const facts[] = {shard.tokens(), static_cast<std::int64_t>(shard.type())};
        add(facts, sizeof facts);
        for (std::span<std::byte const> const file : shard.mapped_bytes()) {
            auto const bytes = static_cast<std::int64_t>(file.size());
            add(&bytes, sizeof bytes);
            std::size_t const part = std::min(edge, file.size());
            add(file.data(), part);
            add(file.data() + file.size() - part, part);
        }
    }
    XXH128_hash_t const hash = ::XXH3_128bits_digest(state.get());
    return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

} // namespace evener::io
