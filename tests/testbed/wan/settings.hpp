// SPDX-License-Identifier: Apache-2.0
#pragma once

// What a link does to packets, and the file that says so: one line for each direction,
//   ab delay_ms=20 rate_mbit=100 loss=0.001
//   ba delay_ms=20

#include <istream>
#include <string>

namespace evener::testbed {

struct LinkSettings {
    double delay_ms = 0; ///< one way
    double jitter_ms =
        0; ///< added to the delay, uniform from minus to plus that; nothing overtakes
    double rate_mbit = 0; ///< IP bytes; 0: unlimited
    double queue_kb = 0;  ///< what waits for the rate; 0: one round trip, at least 128
    double loss = 0;      ///< share of segments lost at random, below 1
    double burst = 1;     ///< mean segments lost in a row
    double seed = 1;      ///< of loss and jitter
    double down = 0;      ///< not 0: all is lost

    double nanoseconds_per_byte() const { return rate_mbit > 0 ? 8000 / rate_mbit : 0; }
    double queue_bytes() const;
};

struct BothDirections {
    LinkSettings ab;
    LinkSettings ba;
};

/// Throws core::ConfigError that names every word that is no setting. `file` is for messages.
BothDirections read_settings(std::istream& text, std::string const& file);

} // namespace evener::testbed
