// SPDX-License-Identifier: Apache-2.0
#include "runtime/step_measurement.hpp"

#include <algorithm>
#include <chrono>

namespace evener::runtime {

namespace {

/// Start and end of every instruction by rank 0's clock.
std::vector<program::Span> own_spans(Session const& session, double clock_offset_seconds) {
    comm::Board const& board = session.train_board();
    double const zero = std::chrono::duration<double>(board.zero().time_since_epoch()).count() +
                        clock_offset_seconds;
    std::vector<program::Span> spans;
    for (std::size_t i = 0; i < board.size(); ++i) {
        comm::InstructionTimes const times =
            board.times(core::InstructionId{static_cast<std::int64_t>(i)});
        spans.push_back({zero + times.start, zero + times.end});
    }
    return spans;
}

} // namespace

program::Measurement gather_measurement(comm::Communicator const& world, Session const& session,
                                        double clock_offset_seconds) {
    program::Measurement result;
    std::vector<program::Span> const spans = own_spans(session, clock_offset_seconds);
    result.timeline.ranks = comm::all_gather_values(world, std::span<program::Span const>{spans});
    double zero =
        std::chrono::duration<double>(session.train_board().zero().time_since_epoch()).count() +
        clock_offset_seconds;
    zero = world.all_min(std::vector<double>{zero}).front();
    for (auto& rank : result.timeline.ranks)
        for (program::Span& span : rank)
            span = {span.start - zero, span.end - zero};
    program::RankMeasurement const mine = session.train_measurement();
    auto const layers =
        comm::all_gather_values(world, std::span<program::LayerSpent const>{mine.layers});
    auto const boundaries =
        comm::all_gather_values(world, std::span<program::Spent const>{&mine.boundaries, 1});
    for (std::size_t r = 0; r < layers.size(); ++r)
        result.ranks.push_back({layers[r], boundaries[r].front()});
    return result;
}

} // namespace evener::runtime
