// SPDX-License-Identifier: Apache-2.0
#pragma once

// One direction of a link: packets are lost at random, wait for the rate in a queue that drops what it
// cannot hold, and leave after a delay. The time is handed in, so a test needs no clock.

#include "testbed/wan/settings.hpp"
#include "testbed/wan/super_packet.hpp"

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <ostream>
#include <random>
#include <span>

namespace evener::testbed {

using Nanoseconds = std::int64_t; ///< of a monotonic clock

/// Counts of segments, except `packets_out` and `refused`, which are of pieces.
struct LinkCounts {
    std::uint64_t segments_in = 0;
    std::uint64_t bytes_in = 0;
    std::uint64_t packets_out = 0;
    std::uint64_t lost = 0;     ///< at random, or the link was down
    std::uint64_t overflow = 0; ///< the queue was full
    std::uint64_t refused = 0;  ///< by the device at the far end
};

/// How late packets left against what the model said, by powers of two of a microsecond. What the
/// machine could not do in time makes a measured time worthless, and a test can see it here.
class Lateness {
  public:
    void add(Nanoseconds late);
    /// An upper bound of that quantile.
    std::uint64_t quantile_us(double q) const;
    Nanoseconds worst() const noexcept { return worst_; }

  private:
    std::array<std::uint64_t, 32> below_{}; // [i]: less than 2^i us and not less than half of it
    Nanoseconds worst_ = 0;
};

class Direction {
  public:
    /// What is under way stays as it is; the random sequence starts again when the seed changes.
    void configure(LinkSettings const& settings);

    /// A packet as for SuperPacket; its segments are lost or queued each on its own, and each run of
    /// those that are left goes on as one piece.
    void accept(std::span<std::uint8_t const> bytes, std::size_t header, Nanoseconds now);

    /// When the next piece is due.
    std::optional<Nanoseconds> next_due() const;

    /// Hands over all that is due, in order. `send` returns false where the device refuses.
    void release(Nanoseconds now, std::function<bool(Bytes const&)> const& send);

    LinkCounts const& counts() const noexcept { return counts_; }
    Lateness const& lateness() const noexcept { return lateness_; }

  private:
    struct Waiting {
        Nanoseconds due;
        Bytes bytes;
    };

    bool survives(std::size_t bytes, Nanoseconds now);
    bool is_lost();
    Nanoseconds delay();
    double uniform(); // from 0, below 1

    LinkSettings settings_;
    std::mt19937_64 random_{1};
    std::deque<Waiting> waiting_;
    Nanoseconds busy_until_ = 0; // when the rate has drained all that was accepted
    Nanoseconds last_due_ = 0;
    bool in_burst_ = false;
    LinkCounts counts_;
    Lateness lateness_;
};

/// One line: "name key=value ...".
void report(std::ostream& out, char const* name, Direction const& direction);

} // namespace evener::testbed
