// SPDX-License-Identifier: Apache-2.0
#include "io/sample_order.hpp"

#include "core/error.hpp"

#include <bit>

namespace evener::io {

namespace {

constexpr std::uint32_t rounds = 6;
// Keeps the order's random bits apart from other uses of the same seed.
constexpr std::uint64_t order_domain = 0x6f7264657220636bu;

} // namespace

SampleOrder::SampleOrder(std::int64_t samples, std::uint64_t seed, bool shuffle)
    : samples_{samples}, key_{core::split_words(seed ^ order_domain)}, shuffle_{shuffle} {
    EVENER_EXPECT(samples >= 1 && samples <= (std::int64_t{1} << 62));
    int const bits = static_cast<int>(std::bit_width(static_cast<std::uint64_t>(samples - 1)));
    half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
}

std::int64_t SampleOrder::sample(std::int64_t k) const {
    EVENER_EXPECT(k >= 0);
    std::int64_t const place = k % samples_;
    if (!shuffle_)
        return place;
    auto const epoch = static_cast<std::uint64_t>(k / samples_);
    // Cycle walking: the Feistel network permutes [0, 4^half_bits), which holds at most 4 N numbers
    // for N > 1; following its cycle from a number below N until the next one below N permutes
    // [0, N). Expected steps: at most 4.
    auto result = static_cast<std::uint64_t>(place);
    do
        result = permute(result, epoch);
    while (result >= static_cast<std::uint64_t>(samples_));
    return static_cast<std::int64_t>(result);
}

std::uint64_t SampleOrder::permute(std::uint64_t place, std::uint64_t epoch) const {
    std::uint32_t const mask = (std::uint32_t{1} << half_bits_) - 1;
    auto left = static_cast<std::uint32_t>(place >> half_bits_);
    auto right = static_cast<std::uint32_t>(place) & mask;
    core::PhiloxKey const epoch_words = core::split_words(epoch);
    for (std::uint32_t round = 0; round < rounds; ++round) {
        std::uint32_t const random =
            core::philox4x32({right, round, epoch_words[0], epoch_words[1]}, key_)[0];
        std::uint32_t const mixed = left ^ (random & mask);
        left = right;
        right = mixed;
    }
    return (static_cast<std::uint64_t>(left) << half_bits_) | right;
}

} // namespace evener::io
