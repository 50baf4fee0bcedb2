// SPDX-License-Identifier: Apache-2.0
#pragma once

// XXH3-128, seed 0: the checksum of everything in a checkpoint. Its text is what `xxh128sum`
// prints: 32 lower-case hexadecimal digits, most significant first.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace evener::checkpoints {

struct Digest {
    std::uint64_t high = 0;
    std::uint64_t low = 0;

    friend bool operator==(Digest, Digest) = default;
};

Digest digest_of(void const* data, std::size_t bytes);
inline Digest digest_of(std::string_view text) {
    return digest_of(text.data(), text.size());
}

std::string to_string(Digest digest);
/// Nothing unless `text` is exactly 32 lower-case hexadecimal digits.
std::optional<Digest> parse_digest(std::string_view text);

/// Digest of data that comes in pieces.
class Hasher {
  public:
    Hasher();
    Hasher(Hasher&&) noexcept;
    Hasher& operator=(Hasher&&) noexcept;
    ~Hasher();

    void add(void const* data, std::size_t bytes);
    Digest digest() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

} // namespace evener::checkpoints
