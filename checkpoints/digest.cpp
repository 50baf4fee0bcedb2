// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/digest.hpp"

#include <fmt/format.h>
#include <xxhash.h>

#include <new>

namespace evener::checkpoints {

namespace {

Digest from(XXH128_hash_t hash) {
    return Digest{hash.high64, hash.low64};
}

} // namespace

struct Hasher::State {
    XXH3_state_t* xxh = XXH3_createState();

    State() {
        if (xxh == nullptr)
            throw std::bad_alloc{};
        XXH3_128bits_reset(xxh);
    }
    State(State const&) = delete;
    State& operator=(State const&) = delete;
    ~State() { XXH3_freeState(xxh); }
};

Hasher::Hasher() : state_{std::make_unique<State>()} {}
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;
Hasher::~Hasher() = default;

void Hasher::add(void const* data, std::size_t bytes) {
    XXH3_128bits_update(state_->xxh, data, bytes);
}

Digest Hasher::digest() const {
    return from(XXH3_128bits_digest(state_->xxh));
}

Digest digest_of(void const* data, std::size_t bytes) {
    return from(XXH3_128bits(data, bytes));
}

std::string to_string(Digest digest) {
    return fmt::format("{:016x}{:016x}", digest.high, digest.low);
}

std::optional<Digest> parse_digest(std::string_view text) {
    if (text.size() != 32)
        return std::nullopt;
    std::uint64_t half[2] = {0, 0};
    for (std::size_t i = 0; i < 32; ++i) {
        char const c = text[i];
        unsigned const digit = c >= '0' && c <= '9'   ? static_cast<unsigned>(c - '0')
                               : c >= 'a' && c <= 'f' ? static_cast<unsigned>(c - 'a') + 10u
                                                      : 16u;
        if (digit > 15u)
            return std::nullopt;
        half[i / 16] = half[i / 16] << 4 | digit;
    }
    return Digest{half[0], half[1]};
}

} // namespace evener::checkpoints
