// SPDX-License-Identifier: Apache-2.0
#include "schedule/work_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <queue>
#include <tuple>

namespace evener::schedule {

using core::RankId;
using program::Work;
using program::WorkKind;

namespace {

/// How far a cell has come.
struct Progress {
    std::int32_t forward_missing = 0;  ///< inputs that have not left yet
    std::int32_t backward_missing = 0; ///< likewise
    double forward_ready = 0;          ///< when the last known input arrives
    double backward_ready = 0;
    bool forward_done = false;
    bool input_done = false;  ///< the backward's first half
    bool weight_done = false; ///< its second
};

struct Ended {
    double seconds = 0;
    std::int32_t cell = 0;
    std::int32_t rank = 0;
    WorkKind kind = WorkKind::forward;

    friend bool operator>(Ended const& a, Ended const& b) {
        return std::tie(a.seconds, a.cell, a.kind) > std::tie(b.seconds, b.cell, b.kind);
    }
};

class Run {
  public:
    Run(WorkGraph const& graph, program::Schedule const& schedule)
        : graph_{graph}, schedule_{schedule}, cells_(graph.cells.size()),
          ranks_(schedule.ranks.size()), wires_(static_cast<std::size_t>(graph.wire_count)) {
        if (std::ssize(schedule.ranks) != graph.rank_count)
            throw core::ConfigError{fmt::format("the schedule is for {} ranks (the plan has {})",
                                                schedule.ranks.size(), graph.rank_count)};
        for (std::size_t i = 0; i < cells_.size(); ++i) {
            cells_[i].forward_missing =
                static_cast<std::int32_t>(std::ssize(graph.cells[i].forward_inputs));
            cells_[i].backward_missing =
                static_cast<std::int32_t>(std::ssize(graph.cells[i].backward_inputs));
        }
        result_.spans.resize(ranks_.size());
        result_.peak_bytes.resize(ranks_.size());
        result_.busy_seconds.resize(ranks_.size());
        for (std::size_t r = 0; r < ranks_.size(); ++r)
            result_.spans[r].reserve(schedule.ranks[r].size());
    }

    Evaluation run() {
        for (std::size_t r = 0; r < ranks_.size(); ++r)
            start_next(r);
        while (!ends_.empty()) {
            Ended const ended = ends_.top();
            ends_.pop();
            finish(ended);
        }
        check_done();
        return std::move(result_);
    }

  private:
    struct Rank {
        std::size_t next = 0;
        bool busy = false;
        double free = 0;
        double bytes = 0;
    };

    std::string name(std::size_t rank, Work const& work) const {
        return fmt::format("{} of rank {}", to_string(work), rank);
    }

    std::int32_t cell_of(std::size_t rank, Work const& work) const {
        std::int32_t const cell =
            graph_.find(RankId{static_cast<std::int64_t>(rank)}, work.chunk, work.microbatch);
        if (cell < 0)
            throw core::ConfigError{
                fmt::format("{} is not this rank's work (it has no part of it)", name(rank, work))};
        return cell;
    }

    void check_order(std::size_t rank, Work const& work, Progress const& cell) const {
        bool const repeated = work.kind == WorkKind::forward           ? cell.forward_done
                              : work.kind == WorkKind::backward_weight ? cell.weight_done
                                                                       : cell.input_done;
        if (repeated)
            throw core::ConfigError{fmt::format("{} stands twice", name(rank, work))};
        if (work.kind != WorkKind::forward && !cell.forward_done)
            throw core::ConfigError{fmt::format("{} stands before its forward", name(rank, work))};
        if (work.kind == WorkKind::backward_weight && !cell.input_done)
            throw core::ConfigError{
                fmt::format("{} stands before its input gradient", name(rank, work))};
    }

    /// Starts the rank's next work if the rank is free and all that the work waits for is under
    /// way; otherwise whoever is missing calls again.
    void start_next(std::size_t r) {
        Rank& rank = ranks_[r];
        std::vector<Work> const& order = schedule_.ranks[r];
        if (rank.busy || rank.next == order.size())
            return;
        Work const& work = order[rank.next];
        std::int32_t const index = cell_of(r, work);
        Progress const& cell = cells_[static_cast<std::size_t>(index)];
        check_order(r, work, cell);
        double start = rank.free;
        if (work.kind == WorkKind::forward) {
            if (cell.forward_missing > 0)
                return;
            start = std::max(start, cell.forward_ready);
        } else if (work.kind != WorkKind::backward_weight) {
            if (cell.backward_missing > 0)
                return;
            start = std::max(start, cell.backward_ready);
        }
        double const seconds = graph_.cells[static_cast<std::size_t>(index)].seconds.of(work.kind);
        result_.spans[r].push_back({start, start + seconds});
        result_.busy_seconds[r] += seconds;
        hold(r, work.kind, graph_.cells[static_cast<std::size_t>(index)]);
        rank.busy = true;
        ++rank.next;
        ends_.push({start + seconds, index, static_cast<std::int32_t>(r), work.kind});
    }

    void hold(std::size_t r, WorkKind kind, Cell const& cell) {
        Rank& rank = ranks_[r];
        if (kind == WorkKind::forward)
            rank.bytes += cell.kept_bytes;
        else if (kind == WorkKind::backward_input)
            rank.bytes += cell.kept_for_weights_bytes;
        result_.peak_bytes[r] = std::max(result_.peak_bytes[r], rank.bytes);
        if (kind == WorkKind::backward)
            rank.bytes -= cell.kept_bytes;
        else if (kind == WorkKind::backward_weight)
            rank.bytes -= cell.kept_bytes + cell.kept_for_weights_bytes;
    }

    void finish(Ended const& ended) {
        auto const r = static_cast<std::size_t>(ended.rank);
        Progress& cell = cells_[static_cast<std::size_t>(ended.cell)];
        ranks_[r].busy = false;
        ranks_[r].free = ended.seconds;
        result_.seconds = std::max(result_.seconds, ended.seconds);
        if (ended.kind == WorkKind::forward)
            cell.forward_done = true;
        else if (ended.kind == WorkKind::backward_weight)
            cell.weight_done = true;
        else
            cell.input_done = true;
        if (ended.kind == WorkKind::backward)
            cell.weight_done = true;
        if (ended.kind == WorkKind::forward)
            send(graph_.forward_outputs(ended.cell), ended.seconds, &Progress::forward_missing,
                 &Progress::forward_ready);
        else if (ended.kind != WorkKind::backward_weight)
            send(graph_.backward_outputs(ended.cell), ended.seconds, &Progress::backward_missing,
                 &Progress::backward_ready);
        start_next(r);
    }

    void send(std::span<Departure const> outputs, double now, std::int32_t Progress::*missing,
              double Progress::*ready) {
        for (Departure const& departure : outputs) {
            double arrival = now;
            if (departure.arrival.wire >= 0) {
                double& free = wires_[static_cast<std::size_t>(departure.arrival.wire)];
                free = std::max(free, now) + departure.arrival.seconds;
                arrival = free + departure.arrival.latency_seconds;
            }
            Progress& cell = cells_[static_cast<std::size_t>(departure.cell)];
            cell.*ready = std::max(cell.*ready, arrival);
            if (--(cell.*missing) == 0)
                start_next(graph_.cells[static_cast<std::size_t>(departure.cell)].rank.index());
        }
    }

    void check_done() const {
        for (std::size_t r = 0; r < ranks_.size(); ++r)
            if (ranks_[r].next < schedule_.ranks[r].size())
                throw core::ConfigError{
                    fmt::format("the schedule blocks ({} waits for work that cannot come before "
                                "it); change the order",
                                name(r, schedule_.ranks[r][ranks_[r].next]))};
        for (std::size_t i = 0; i < cells_.size(); ++i) {
            Cell const& cell = graph_.cells[i];
            if (!cells_[i].forward_done || !cells_[i].weight_done)
                throw core::ConfigError{
                    fmt::format("rank {} does not do all of microbatch {} of chunk {} (no {})",
                                cell.rank.value, cell.microbatch.value, cell.chunk.value,
                                !cells_[i].forward_done ? "forward"
                                : !cells_[i].input_done ? "backward"
                                                        : "weight gradient")};
        }
    }

    WorkGraph const& graph_;
    program::Schedule const& schedule_;
    std::vector<Progress> cells_;
    std::vector<Rank> ranks_;
    std::vector<double> wires_; ///< when each gets free
    std::priority_queue<Ended, std::vector<Ended>, std::greater<>> ends_;
    Evaluation result_;
};

} // namespace

double Evaluation::span(RankId rank) const {
    auto const& own = spans[rank.index()];
    return own.empty() ? 0 : own.back().end - own.front().start;
}

double Evaluation::bubble(RankId rank) const {
    return span(rank) - busy_seconds[rank.index()];
}

Evaluation evaluate(WorkGraph const& graph, program::Schedule const& schedule) {
    return Run{graph, schedule}.run();
}

} // namespace evener::schedule
