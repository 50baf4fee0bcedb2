// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the ranks measured of one training step, as far as planning wants to know it: seconds of
// each layer's phases, however the step was cut into chunks, and the timeline of all instructions.

#include "program/timeline.hpp"

#include <vector>

namespace evener::program {

/// Seconds spent on an amount of something.
struct Spent {
    double seconds = 0;
    double amount = 0;

    Spent& operator+=(Spent const& other) {
        seconds += other.seconds;
        amount += other.amount;
        return *this;
    }
};

/// The three phases of a layer whose amounts are sequences.
struct LayerSpent {
    Spent forward;
    Spent backward_input;
    Spent backward_weight;
};

struct RankMeasurement {
    std::vector<LayerSpent> layers; ///< by layer of the model; amount 0 where it computed nothing
    Spent boundaries;               ///< copies between chunks and their messages; bytes in the
                                    ///< chunk's type
};

struct Measurement {
    Timeline timeline;
    std::vector<RankMeasurement> ranks;
};

} // namespace evener::program
