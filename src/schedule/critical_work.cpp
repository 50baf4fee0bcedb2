// SPDX-License-Identifier: Apache-2.0
#include "schedule/critical_work.hpp"

#include <algorithm>

namespace evener::schedule {

using program::Work;
using program::WorkKind;

namespace {

/// Where each cell's forward and (input half of the) backward stand in the orders.
struct Indices {
    std::vector<std::size_t> forward;
    std::vector<std::size_t> backward;

    Indices(WorkGraph const& graph, program::Schedule const& schedule)
        : forward(graph.cells.size()), backward(graph.cells.size()) {
        for (std::size_t r = 0; r < schedule.ranks.size(); ++r)
            for (std::size_t i = 0; i < schedule.ranks[r].size(); ++i) {
                Work const& work = schedule.ranks[r][i];
                if (work.kind == WorkKind::backward_weight)
                    continue;
                std::int32_t const cell = graph.find(core::RankId{static_cast<std::int64_t>(r)},
                                                     work.chunk, work.microbatch);
                (work.kind == WorkKind::forward ? forward
                                                : backward)[static_cast<std::size_t>(cell)] = i;
            }
    }
};

} // namespace

std::vector<Place> critical_path(WorkGraph const& graph, program::Schedule const& schedule,
                                 Evaluation const& run) {
    Indices const indices{graph, schedule};
    Place place;
    for (std::size_t r = 0; r < run.spans.size(); ++r)
        if (!run.spans[r].empty() && run.spans[r].back().end == run.seconds)
            place = {r, run.spans[r].size() - 1, false};
    std::vector<Place> path;
    for (;;) {
        auto const& spans = run.spans[place.rank];
        double const start = spans[place.index].start;
        place.waits_for_rank = place.index > 0 && spans[place.index - 1].end == start;
        path.push_back(place);
        if (place.waits_for_rank) {
            --place.index;
            continue;
        }
        Work const& work = schedule.ranks[place.rank][place.index];
        bool const forward = work.kind == WorkKind::forward;
        if (work.kind == WorkKind::backward_weight)
            return path;
        Cell const& cell = graph.cells[static_cast<std::size_t>(graph.find(
            core::RankId{static_cast<std::int64_t>(place.rank)}, work.chunk, work.microbatch))];
        double latest = -1;
        for (Arrival const& input : forward ? cell.forward_inputs : cell.backward_inputs) {
            auto const sender = static_cast<std::size_t>(input.cell);
            std::size_t const rank = graph.cells[sender].rank.index();
            std::size_t const index = (forward ? indices.forward : indices.backward)[sender];
            double const arrival =
                run.spans[rank][index].end + input.seconds + input.latency_seconds;
            if (arrival > latest) {
                latest = arrival;
                place = {rank, index, false};
            }
        }
        if (latest < 0)
            return path;
    }
}

} // namespace evener::schedule
