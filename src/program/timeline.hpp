// SPDX-License-Identifier: Apache-2.0
#pragma once

// When each instruction of each rank ran, predicted by the simulator or measured by the executor:
// the same lines for both, so that one can be laid over the other.

#include "program/program.hpp"

#include <vector>

namespace evener::program {

/// Seconds from the start of the pass.
struct Span {
    double start = 0;
    double end = 0;

    double seconds() const { return end - start; }
    friend bool operator==(Span const&, Span const&) = default;
};

struct Timeline {
    std::vector<std::vector<Span>> ranks; ///< [rank][instruction]

    /// End of the last instruction of any rank.
    double seconds() const;
};

/// Bytes of a memory in use at a moment: what the buffers that hold a content then need.
struct MemoryPoint {
    double seconds = 0;
    std::int64_t bytes = 0;

    friend bool operator==(MemoryPoint const&, MemoryPoint const&) = default;
};

/// Bytes in use in one of a rank's memories over the pass: a step function, one point per change,
/// ascending. Persistent buffers, and the receive and send buffers, count from start to end; others from the
/// start of the instruction that writes them to the end of their last use.
std::vector<MemoryPoint> memory_over_time(Program const& program, std::vector<Span> const& spans,
                                          Memory memory = Memory::device);

} // namespace evener::program
