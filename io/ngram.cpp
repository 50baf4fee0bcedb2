// SPDX-License-Identifier: Apache-2.0

// The loss of a table of n-gram counts, the yardstick for a byte-level model.

#include "core/error.hpp"
#include "io/corpus.hpp"
#include "io/token_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace evener::io {

namespace {

constexpr int max_order = 7; // a gram and the marker of its length fill 64 bits

std::vector<std::uint8_t> read_bytes(std::string const& path) {
    TokenFile const file{path};
    std::vector<std::uint8_t> bytes(static_cast<std::size_t>(file.tokens()));
    std::vector<std::int32_t> chunk(std::size_t{1} << 16);
    for (std::size_t begin = 0; begin < bytes.size();) {
        std::size_t const count = std::min(bytes.size() - begin, chunk.size());
        std::span const part{chunk.data(), count};
        file.read(static_cast<std::int64_t>(begin), part);
        for (std::size_t i = 0; i < count; ++i) {
            if (part[i] >= byte_vocabulary)
                throw core::IoError{path, fmt::format("token {} is {}, not a byte; an n-gram table "
                                                      "is made of byte-level files only",
                                                      begin + i, part[i])};
            bytes[begin + i] = static_cast<std::uint8_t>(part[i]);
        }
        begin += count;
    }
    return bytes;
}

/// The `length` bytes before `end` as one number; the leading 1 tells apart lengths.
std::uint64_t key_of(std::span<std::uint8_t const> bytes, std::size_t end, std::size_t length) {
    std::uint64_t key = 1;
    for (std::size_t i = end - length; i < end; ++i)
        key = (key << 8) | bytes[i];
    return key;
}

class NgramTable {
  public:
    NgramTable(std::span<std::uint8_t const> text, int order)
        : contexts_(static_cast<std::size_t>(order)), grams_(static_cast<std::size_t>(order)) {
        for (std::size_t place = 0; place < text.size(); ++place)
            for (std::size_t length = 0; length < contexts_.size() && length <= place; ++length) {
                std::uint64_t const context = key_of(text, place, length);
                ++contexts_[length][context];
                ++grams_[length][(context << 8) | text[place]];
            }
    }

    /// Of text[place], given the bytes before it.
    double probability(std::span<std::uint8_t const> text, std::size_t place) const {
        double p = 1.0 / static_cast<double>(byte_vocabulary);
        for (std::size_t length = 0; length < contexts_.size() && length <= place; ++length) {
            std::uint64_t const context = key_of(text, place, length);
            auto const seen = contexts_[length].find(context);
            if (seen == contexts_[length].end())
                break; // no longer context was seen either
            auto const followed = grams_[length].find((context << 8) | text[place]);
            double const count = followed == grams_[length].end() ? 0.0 : followed->second;
            p = (count + p) / (seen->second + 1.0);
        }
        return p;
    }

  private:
    using Counts = std::unordered_map<std::uint64_t, std::uint32_t>;
    std::vector<Counts> contexts_; // by context length: how often something followed it
    std::vector<Counts> grams_;    // by context length: how often that byte followed it
};

} // namespace

double ngram_nats_per_byte(std::string const& train_file, std::string const& validation_file,
                           int order) {
    EVENER_EXPECT(order >= 1 && order <= max_order);
    std::vector<std::uint8_t> const validation = read_bytes(validation_file);
    if (validation.empty())
        throw core::IoError{validation_file, "holds no tokens to measure"};
    NgramTable const table{read_bytes(train_file), order};
    double nats = 0;
    for (std::size_t place = 0; place < validation.size(); ++place)
        nats -= std::log(table.probability(validation, place));
    return nats / static_cast<double>(validation.size());
}

} // namespace evener::io
