// SPDX-License-Identifier: Apache-2.0
#pragma once

// Philox4x32-10, the counter-based generator of Salmon, Moraes, Dror and Shaw, "Parallel random
// numbers: as easy as 1, 2, 3" (SC 2011). A pure function of (counter, key): whoever needs the
// number at a place computes it there, so no generator state is stored, sent or saved.

#include <array>
#include <cstdint>

namespace evener::core {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

/// 128 random bits for one counter; for a fixed key it is a bijection of the counter.
constexpr PhiloxCounter philox4x32(PhiloxCounter counter, PhiloxKey key) {
    constexpr std::uint64_t multiplier0 = 0xD2511F53u;
    constexpr std::uint64_t multiplier1 = 0xCD9E8D57u;
    constexpr std::uint32_t weyl0 = 0x9E3779B9u; // golden ratio
    constexpr std::uint32_t weyl1 = 0xBB67AE85u; // sqrt(3) - 1
    for (int round = 0; round < 10; ++round) {
        std::uint64_t const product0 = multiplier0 * counter[0];
        std::uint64_t const product1 = multiplier1 * counter[2];
        counter = {static_cast<std::uint32_t>(product1 >> 32) ^ counter[1] ^ key[0],
                   static_cast<std::uint32_t>(product1),
                   static_cast<std::uint32_t>(product0 >> 32) ^ counter[3] ^ key[1],
                   static_cast<std::uint32_t>(product0)};
        key[0] += weyl0;
        key[1] += weyl1;
    }
    return counter;
}

/// A 64-bit value as two 32-bit words, low word first.
constexpr PhiloxKey split_words(std::uint64_t value) {
    return {static_cast<std::uint32_t>(value), static_cast<std::uint32_t>(value >> 32)};
}

/// The counter that stands for (index, stream), both 64 bits.
constexpr PhiloxCounter philox_counter(std::uint64_t stream, std::uint64_t index) {
    PhiloxKey const low = split_words(index);
    PhiloxKey const high = split_words(stream);
    return {low[0], low[1], high[0], high[1]};
}

} // namespace evener::core
