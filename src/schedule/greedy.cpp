// SPDX-License-Identifier: Apache-2.0
#include "schedule/greedy.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace evener::schedule {

namespace {

/// Seconds from the start of each cell's forward to the end of its input half if nothing else runs.
std::vector<double> round_trips(WorkGraph const& graph) {
    std::vector<double> forward_ends(graph.cells.size());
    std::vector<double> trips(graph.cells.size());
    auto const latest = [&](std::vector<Arrival> const& inputs, std::vector<double> const& ends) {
        double seconds = 0;
        for (Arrival const& input : inputs)
            seconds = std::max(seconds, ends[static_cast<std::size_t>(input.cell)] + input.seconds +
                                            input.latency_seconds);
        return seconds;
    };
    // Cells stand in the order of their chunks.
    for (std::size_t i = 0; i < graph.cells.size(); ++i)
        forward_ends[i] =
            latest(graph.cells[i].forward_inputs, forward_ends) + graph.cells[i].seconds.forward;
    std::vector<double> backward_ends(graph.cells.size());
    for (std::size_t i = graph.cells.size(); i-- > 0;) {
        program::ChunkSeconds const& seconds = graph.cells[i].seconds;
        backward_ends[i] =
            std::max(forward_ends[i], latest(graph.cells[i].backward_inputs, backward_ends)) +
            seconds.backward_input;
        trips[i] = backward_ends[i] - (forward_ends[i] - seconds.forward);
    }
    return trips;
}

double work_seconds(Cell const& cell) {
    return cell.seconds.forward + std::min(cell.seconds.backward, cell.seconds.backward_input +
                                                                      cell.seconds.backward_weight);
}

/// Whether any rank has cells of more than one chunk.
bool several_chunks(WorkGraph const& graph) {
    std::vector<core::ChunkId> chunks(static_cast<std::size_t>(graph.rank_count));
    for (Cell const& cell : graph.cells) {
        core::ChunkId& own = chunks[cell.rank.index()];
        if (own.valid() && own != cell.chunk)
            return true;
        own = cell.chunk;
    }
    return false;
}

/// Windows of `scale` times the full ones, at least one cell.
std::vector<std::int64_t> scaled(std::vector<std::int64_t> windows, double scale) {
    for (std::int64_t& window : windows)
        window = std::max<std::int64_t>(
            1, static_cast<std::int64_t>(std::ceil(static_cast<double>(window) * scale)));
    return windows;
}

/// The fastest schedule so far, and how much may still be tried.
class Best {
  public:
    Best(WorkGraph const& graph, GreedyOptions const& options)
        : graph_{graph}, budget_{options.work_budget}, work_(3 * std::ssize(graph.cells)) {}

    /// Whether the rules are the best so far; false too when the budget is spent.
    bool attempt(ListRules const& rules) {
        if (best_ && budget_ < work_)
            return false;
        budget_ -= work_;
        program::Schedule schedule = list_schedule(graph_, rules);
        double const seconds = evaluate(graph_, schedule).seconds;
        if (best_ && seconds >= seconds_)
            return false;
        best_ = std::move(schedule);
        rules_ = rules;
        seconds_ = seconds;
        return true;
    }

    ListRules const& rules() const { return rules_; }
    program::Schedule take() { return std::move(*best_); }

  private:
    WorkGraph const& graph_;
    std::int64_t budget_;
    std::int64_t work_;
    std::optional<program::Schedule> best_;
    ListRules rules_;
    double seconds_ = 0;
};

} // namespace

std::vector<std::int64_t> full_windows(WorkGraph const& graph) {
    auto const ranks = static_cast<std::size_t>(graph.rank_count);
    std::vector<double> work(ranks);
    std::int64_t microbatches = 1;
    for (Cell const& cell : graph.cells) {
        work[cell.rank.index()] += work_seconds(cell);
        microbatches = std::max<std::int64_t>(microbatches, cell.microbatch.value + 1);
    }
    // Mean trip of a rank's cells times their rate: how many are under way (Little's law).
    std::vector<double> trips(ranks);
    std::vector<double> const of_cells = round_trips(graph);
    for (std::size_t i = 0; i < of_cells.size(); ++i)
        trips[graph.cells[i].rank.index()] += of_cells[i];
    double const slowest = *std::max_element(work.begin(), work.end());
    std::vector<std::int64_t> windows;
    for (double const trip : trips)
        windows.push_back(std::max<std::int64_t>(
            1, slowest > 0 ? static_cast<std::int64_t>(std::ceil(trip / slowest - 1e-9))
                           : microbatches));
    return windows;
}

program::Schedule greedy(WorkGraph const& graph, GreedyOptions const& options) {
    using Rules = ListRules;
    std::vector<std::int64_t> const windows = full_windows(graph);
    Best best{graph, options};
    best.attempt({});

    // One kind of rule after the other, keeping what was best so far.
    auto const vary = [&](auto Rules::*rule, auto const&... values) {
        (
            [&] {
                Rules rules = best.rules();
                rules.*rule = values;
                best.attempt(rules);
            }(),
            ...);
    };
    for (int round = 0; round < 2; ++round) {
        vary(&Rules::windows, scaled(windows, 1), scaled(windows, 1.5), scaled(windows, 2),
             std::vector<std::int64_t>{});
        vary(&Rules::choice, Rules::Choice::turns, Rules::Choice::forward, Rules::Choice::backward);
        vary(&Rules::weights, Rules::Weights::early, Rules::Weights::fused, Rules::Weights::fill);
        vary(&Rules::patience, 0.25, 0.5, 1.0, 0.0);
        if (!several_chunks(graph))
            continue; // the rules below make no difference
        vary(&Rules::chunks, Rules::Chunks::deep, Rules::Chunks::runs);
        vary(&Rules::run, std::int64_t{2}, std::int64_t{4}, graph.rank_count, std::int64_t{1 << 30},
             std::int64_t{1});
        vary(&Rules::reserved, std::int64_t{2}, std::int64_t{4}, std::int64_t{1 << 30},
             std::int64_t{1});
    }
    return best.take();
}

} // namespace evener::schedule
