// SPDX-License-Identifier: Apache-2.0
#include "schedule/schedule_file.hpp"

#include "schedule/work_graph.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace evener::schedule {

using core::ChunkId;
using core::MicrobatchId;
using core::RankId;
using program::Plan;
using program::ScheduleText;
using program::TextPlace;
using program::Work;
using program::WorkKind;

namespace {

constexpr std::size_t most_findings = 20;

/// Where the parts of a cell stand in its row; -1 = not yet.
struct CellPlaces {
    int forward = -1;
    int input = -1;
    int weight = -1;

    bool complete() const { return forward >= 0 && input >= 0 && weight >= 0; }
};

std::string cell_name(std::string_view letters, Cell const& cell) {
    return fmt::format("'{}{}.{}'", letters, cell.chunk.value, cell.microbatch.value);
}

class Checker {
  public:
    Checker(Plan const& plan, ScheduleText const& text)
        : plan_{plan}, text_{text}, graph_{make_work_graph(
                                        plan, program::uniform_costs(plan, {1, 1, 1, 2}), 0)},
          cells_(graph_.cells.size()) {}

    std::vector<core::Finding> run() {
        auto const rows = text_.schedule.ranks.size();
        auto const ranks = static_cast<std::size_t>(plan_.rank_count());
        if (rows != ranks)
            add(rows > ranks ? text_.lines[ranks] : text_.lines.back(), 1,
                fmt::format("the schedule has {} rows (the plan has {} ranks); write one row for "
                            "each rank, a comma where it has no work",
                            rows, ranks));
        for (std::size_t r = 0; r < std::min(rows, ranks); ++r) {
            for (std::size_t i = 0; i < text_.schedule.ranks[r].size(); ++i)
                check_cell(r, i);
            report_missing(r);
        }
        if (findings_.empty())
            find_ring();
        return std::move(findings_);
    }

  private:
    void add(int line, int column, std::string message) {
        if (findings_.size() < most_findings)
            findings_.push_back({{text_.file, line, column}, std::move(message)});
    }

    /// 3:14
    std::string place_text(std::size_t r, int i) const {
        TextPlace const place = text_.places[r][static_cast<std::size_t>(i)];
        return fmt::format("{}:{}", place.line, place.column);
    }

    std::string why_not_here(std::size_t r, Work const& work) const {
        if (work.chunk.index() >= plan_.chunks.size())
            return fmt::format("there is no chunk {} (the plan has {}); use 0 to {}",
                               work.chunk.value, plan_.chunks.size(), plan_.chunks.size() - 1);
        if (work.microbatch.value >= plan_.microbatch_count())
            return fmt::format("there is no microbatch {} (the batch has {}); use 0 to {}",
                               work.microbatch.value, plan_.microbatch_count(),
                               plan_.microbatch_count() - 1);
        std::vector<std::int32_t> others;
        for (RankId const rank : plan_.group_of(work.chunk).ranks)
            if (graph_.find(rank, work.chunk, work.microbatch) >= 0)
                others.push_back(rank.value);
        return fmt::format("rank {} has no part of it (rank {} has); put it into the right row", r,
                           fmt::join(others, " and rank "));
    }

    void check_cell(std::size_t r, std::size_t i) {
        Work const& work = text_.schedule.ranks[r][i];
        TextPlace const place = text_.places[r][i];
        std::string const name = to_string(work);
        std::int32_t const index =
            graph_.find(RankId{static_cast<std::int64_t>(r)}, work.chunk, work.microbatch);
        if (index < 0) {
            add(place.line, place.column,
                fmt::format("'{}' cannot stand here: {}", name, why_not_here(r, work)));
            return;
        }
        CellPlaces& own = cells_[static_cast<std::size_t>(index)];
        Cell const& cell = graph_.cells[static_cast<std::size_t>(index)];
        int const before = work.kind == WorkKind::forward           ? own.forward
                           : work.kind == WorkKind::backward_weight ? own.weight
                           : work.kind == WorkKind::backward_input
                               ? own.input
                               : std::max(own.input, own.weight);
        if (before >= 0)
            add(place.line, place.column,
                fmt::format("'{}' repeats work of rank {} (see {}); remove one of them", name, r,
                            place_text(r, before)));
        if (work.kind != WorkKind::forward && own.forward < 0)
            add(place.line, place.column,
                fmt::format("'{}' stands before {} in the row of rank {}; move it behind", name,
                            cell_name("F", cell), r));
        else if (work.kind == WorkKind::backward_weight && own.input < 0)
            add(place.line, place.column,
                fmt::format("'{}' stands before {} in the row of rank {}; move it behind", name,
                            cell_name("B", cell), r));
        auto const here = static_cast<int>(i);
        if (work.kind == WorkKind::forward)
            own.forward = here;
        if (work.kind == WorkKind::backward || work.kind == WorkKind::backward_input)
            own.input = here;
        if (work.kind == WorkKind::backward || work.kind == WorkKind::backward_weight)
            own.weight = here;
    }

    void report_missing(std::size_t r) {
        std::string first;
        int others = 0;
        for (std::size_t c = 0; c < cells_.size(); ++c) {
            if (graph_.cells[c].rank.index() != r || cells_[c].complete())
                continue;
            if (first.empty())
                first = missing_of(c);
            else
                ++others;
        }
        if (!first.empty() && others == 0)
            add(text_.lines[r], 1, fmt::format("the row of rank {} lacks {}; add it", r, first));
        else if (!first.empty())
            add(text_.lines[r], 1,
                fmt::format("the row of rank {} lacks {}, and work of {} more of its microbatches; "
                            "add it",
                            r, first, others));
    }

    std::string missing_of(std::size_t c) const {
        Cell const& cell = graph_.cells[c];
        CellPlaces const& places = cells_[c];
        std::string missing;
        if (places.forward < 0)
            missing += " and " + cell_name("F", cell);
        if (places.input < 0 && places.weight < 0)
            missing += " and " + cell_name("BW", cell) + ", or " + cell_name("B", cell) + " and " +
                       cell_name("W", cell);
        else if (places.input < 0 || places.weight < 0)
            missing += " and " + cell_name(places.input < 0 ? "B" : "W", cell);
        return missing.substr(5); // without the first " and "
    }

    // --- orders that wait for each other

    /// The cell that the next work of a rank waits for, or -1.
    std::int32_t awaited(Work const& work, std::int32_t index,
                         std::vector<std::size_t> const& next) const {
        if (work.kind == WorkKind::backward_weight)
            return -1;
        Cell const& cell = graph_.cells[static_cast<std::size_t>(index)];
        bool const forward = work.kind == WorkKind::forward;
        for (Arrival const& arrival : forward ? cell.forward_inputs : cell.backward_inputs) {
            CellPlaces const& other = cells_[static_cast<std::size_t>(arrival.cell)];
            int const place = forward ? other.forward : other.input;
            std::size_t const rank =
                graph_.cells[static_cast<std::size_t>(arrival.cell)].rank.index();
            if (static_cast<std::size_t>(place) >= next[rank])
                return arrival.cell;
        }
        return -1;
    }

    void find_ring() {
        auto const& ranks = text_.schedule.ranks;
        std::vector<std::size_t> next(ranks.size());
        auto const awaited_by = [&](std::size_t r) {
            Work const& work = ranks[r][next[r]];
            RankId const rank{static_cast<std::int64_t>(r)};
            return awaited(work, graph_.find(rank, work.chunk, work.microbatch), next);
        };
        for (bool progress = true; progress;) {
            progress = false;
            for (std::size_t r = 0; r < ranks.size(); ++r)
                for (; next[r] < ranks[r].size() && awaited_by(r) < 0; ++next[r])
                    progress = true;
        }
        std::size_t r = 0;
        while (r < ranks.size() && next[r] == ranks[r].size())
            ++r;
        if (r == ranks.size())
            return;
        // Whoever waits, waits for a rank that waits itself; after as many steps this is the ring.
        for (std::size_t step = 0; step < ranks.size(); ++step)
            r = graph_.cells[static_cast<std::size_t>(awaited_by(r))].rank.index();
        std::size_t const first = r;
        std::string chain;
        do {
            Work const& work = ranks[r][next[r]];
            Cell const& cell = graph_.cells[static_cast<std::size_t>(awaited_by(r))];
            CellPlaces const& places = cells_[static_cast<std::size_t>(&cell - &graph_.cells[0])];
            bool const forward = work.kind == WorkKind::forward;
            std::size_t const other = cell.rank.index();
            int const place = forward ? places.forward : places.input;
            chain += fmt::format("{}'{}' of rank {} ({}) waits for '{}' of rank {} ({})",
                                 chain.empty() ? "" : ", ", to_string(work), r,
                                 place_text(r, static_cast<int>(next[r])),
                                 to_string(ranks[other][static_cast<std::size_t>(place)]), other,
                                 place_text(other, place));
            r = other;
        } while (r != first);
        TextPlace const place = text_.places[first][next[first]];
        add(place.line, place.column,
            fmt::format("the ranks wait for each other: {}; move one of them forward in its row",
                        chain));
    }

    Plan const& plan_;
    ScheduleText const& text_;
    WorkGraph graph_;
    std::vector<CellPlaces> cells_; ///< parallel to the graph's
    std::vector<core::Finding> findings_;
};

} // namespace

std::vector<core::Finding> schedule_problems(Plan const& plan, ScheduleText const& text) {
    return Checker{plan, text}.run();
}

program::Schedule read_schedule(std::string_view text, std::string const& file, Plan const& plan) {
    ScheduleText parsed = program::parse_schedule(text, file);
    std::vector<core::Finding> findings = schedule_problems(plan, parsed);
    if (!findings.empty())
        throw core::ConfigError{std::move(findings)};
    return std::move(parsed.schedule);
}

} // namespace evener::schedule
