// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory whose bytes hold symbols: a 64-bit value stands for a whole written range. Reading exactly
// what was written gives the value back; any other view (partly overwritten, shifted, never
// written) gives a value of its own. So use before write, early reuse and overlap change results.

#include <cstdint>
#include <map>

namespace evener::support {

/// Mixes a value into a hash; order matters.
std::uint64_t combine(std::uint64_t hash, std::uint64_t value);

class SymbolicMemory {
  public:
    explicit SymbolicMemory(std::uint64_t garbage) : garbage_{garbage} {}

    void write(std::int64_t begin, std::int64_t bytes, std::uint64_t value);
    std::uint64_t read(std::int64_t begin, std::int64_t bytes) const;

  private:
    struct Segment {
        std::int64_t end = 0;
        std::uint64_t value = 0;
        std::int64_t origin = 0; ///< where the write began
        std::int64_t extent = 0; ///< how long it was
    };
    std::uint64_t garbage_;
    std::map<std::int64_t, Segment> segments_; ///< by begin, disjoint
};

} // namespace evener::support
