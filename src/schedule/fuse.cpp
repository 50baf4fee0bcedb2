// SPDX-License-Identifier: Apache-2.0
#include "schedule/fuse.hpp"

#include <algorithm>
#include <span>

namespace evener::schedule {

using program::Schedule;
using program::Work;
using program::WorkKind;

namespace {

/// A B with its W right behind it.
struct Pair {
    std::size_t rank = 0;
    std::size_t position = 0; ///< of B
};

class Fuser {
  public:
    Fuser(Schedule const& schedule, WorkGraph const& graph)
        : schedule_{schedule}, graph_{graph}, before_{evaluate(graph, schedule)} {
        input_starts_.resize(graph.cells.size());
        for (std::size_t r = 0; r < schedule.ranks.size(); ++r) {
            fused_.emplace_back(schedule.ranks[r].size(), false);
            for (std::size_t i = 0; i < schedule.ranks[r].size(); ++i)
                if (Work const& work = schedule.ranks[r][i];
                    work.kind == WorkKind::backward_input || work.kind == WorkKind::backward)
                    input_starts_[cell_of(r, work)] = before_.spans[r][i].start;
        }
    }

    Schedule run() {
        std::vector<Pair> pairs;
        for (std::size_t r = 0; r < schedule_.ranks.size(); ++r)
            for (std::size_t i = 0; i + 1 < schedule_.ranks[r].size(); ++i)
                if (is_candidate(r, i))
                    pairs.push_back({r, i});
        accept(pairs);
        return written();
    }

  private:
    std::size_t cell_of(std::size_t r, Work const& work) const {
        return static_cast<std::size_t>(
            graph_.find(core::RankId{static_cast<std::int64_t>(r)}, work.chunk, work.microbatch));
    }

    /// Whoever waits for the input gradient starts late enough anyway; but for queues on the wires
    /// this decides.
    bool is_candidate(std::size_t r, std::size_t i) const {
        Work const& first = schedule_.ranks[r][i];
        Work const& second = schedule_.ranks[r][i + 1];
        if (first.kind != WorkKind::backward_input || second.kind != WorkKind::backward_weight ||
            first.chunk != second.chunk || first.microbatch != second.microbatch)
            return false;
        std::size_t const cell = cell_of(r, first);
        program::ChunkSeconds const& seconds = graph_.cells[cell].seconds;
        if (seconds.backward > seconds.backward_input + seconds.backward_weight + tolerance_)
            return false;
        double const end = before_.spans[r][i].start + seconds.backward;
        return std::ranges::all_of(
            graph_.backward_outputs(static_cast<std::int32_t>(cell)), [&](Departure const& out) {
                double const arrival =
                    out.arrival.wire < 0 ? end
                                         : end + out.arrival.seconds + out.arrival.latency_seconds;
                return arrival <= input_starts_[static_cast<std::size_t>(out.cell)] + tolerance_;
            });
    }

    /// Fuses all of the pairs, or those of each half that may be.
    void accept(std::span<Pair const> pairs) {
        if (pairs.empty())
            return;
        mark(pairs, true);
        if (starts_no_later())
            return;
        mark(pairs, false);
        if (pairs.size() == 1)
            return;
        accept(pairs.first(pairs.size() / 2));
        accept(pairs.subspan(pairs.size() / 2));
    }

    void mark(std::span<Pair const> pairs, bool fused) {
        for (Pair const& pair : pairs)
            fused_[pair.rank][pair.position] = fused;
    }

    Schedule written() const {
        Schedule result{.name = schedule_.name, .ranks = {}};
        for (std::size_t r = 0; r < schedule_.ranks.size(); ++r) {
            auto& order = result.ranks.emplace_back();
            for (std::size_t i = 0; i < schedule_.ranks[r].size(); ++i) {
                order.push_back(schedule_.ranks[r][i]);
                if (fused_[r][i]) {
                    order.back().kind = WorkKind::backward;
                    ++i; // its W
                }
            }
        }
        return result;
    }

    bool starts_no_later() const {
        Evaluation const after = evaluate(graph_, written());
        if (after.seconds > before_.seconds + tolerance_)
            return false;
        for (std::size_t r = 0; r < fused_.size(); ++r)
            for (std::size_t i = 0, k = 0; i < fused_[r].size(); i += fused_[r][i] ? 2 : 1, ++k)
                if (after.spans[r][k].start > before_.spans[r][i].start + tolerance_)
                    return false;
        return true;
    }

    Schedule const& schedule_;
    WorkGraph const& graph_;
    Evaluation before_;
    double tolerance_ = 1e-9 * before_.seconds; ///< rounding of sums
    std::vector<double> input_starts_;          ///< of the backward of each cell
    std::vector<std::vector<bool>> fused_;      ///< [rank][position]: this B with the next W
};

} // namespace

Schedule fuse_adjacent(Schedule const& schedule, WorkGraph const& graph) {
    return Fuser{schedule, graph}.run();
}

} // namespace evener::schedule
