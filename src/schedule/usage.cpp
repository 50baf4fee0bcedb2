// SPDX-License-Identifier: Apache-2.0
#include "schedule/usage.hpp"

#include "core/size_text.hpp"
#include "schedule/draw_facts.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::schedule {

namespace {

using program::Span;

/// Sorted, without overlaps and empty spans.
std::vector<Span> merged(std::vector<Span> spans) {
    std::erase_if(spans, [](Span const& span) { return span.end <= span.start; });
    std::sort(spans.begin(), spans.end(),
              [](Span const& a, Span const& b) { return a.start < b.start; });
    std::vector<Span> result;
    for (Span const& span : spans)
        if (!result.empty() && span.start <= result.back().end)
            result.back().end = std::max(result.back().end, span.end);
        else
            result.push_back(span);
    return result;
}

double total(std::vector<Span> const& disjoint) {
    double seconds = 0;
    for (Span const& span : disjoint)
        seconds += span.seconds();
    return seconds;
}

/// Seconds that two lists from merged() share.
double shared(std::vector<Span> const& a, std::vector<Span> const& b) {
    double seconds = 0;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
        seconds += std::max(0.0, std::min(a[i].end, b[j].end) - std::max(a[i].start, b[j].start));
        if (a[i].end < b[j].end)
            ++i;
        else
            ++j;
    }
    return seconds;
}

/// The figures of one rank.
class RankCount {
  public:
    RankCount(program::Program const& program, std::vector<Span> const& spans,
              std::vector<Span> const& under_way)
        : program_{program}, spans_{spans}, under_way_{under_way} {
        EVENER_EXPECT(spans.size() == program.instructions.size());
        std::vector<std::int64_t> last(program.queues.size(), -1);
        for (std::size_t i = 0; i < spans.size(); ++i) {
            std::int64_t& previous = last[program.instructions[i].queue.index()];
            before_.push_back(previous);
            previous = static_cast<std::int64_t>(i);
        }
        seen_.resize(spans.size(), 0);
    }

    RankUsage count(double seconds) {
        RankUsage usage;
        std::vector<Span> computing;
        std::vector<Span> communicating, fetching, evicting;
        double idle_from = 0;
        for (std::size_t i = 0; i < spans_.size(); ++i) {
            switch (kind(i)) {
            case program::QueueKind::compute:
                break;
            case program::QueueKind::copy_in:
                fetching.push_back(spans_[i]);
                continue;
            case program::QueueKind::copy_out:
                evicting.push_back(spans_[i]);
                continue;
            case program::QueueKind::send:
            case program::QueueKind::receive:
            case program::QueueKind::collective:
                communicating.push_back(under_way_[i]);
                continue;
            }
            if (spans_[i].start > idle_from) {
                std::vector<Span> const waits = exposed(i, {idle_from, spans_[i].start});
                usage.exposed.insert(usage.exposed.end(), waits.begin(), waits.end());
            }
            idle_from = std::max(idle_from, spans_[i].end);
            computing.push_back(spans_[i]);
        }
        if (!computing.empty())
            usage.first_start = computing.front().start;
        usage.last_end = idle_from;
        computing = merged(std::move(computing));
        communicating = merged(std::move(communicating));
        fetching = merged(std::move(fetching));
        evicting = merged(std::move(evicting));
        usage.fetch_seconds = total(fetching);
        usage.hidden_fetch_seconds = shared(computing, fetching);
        usage.evict_seconds = total(evicting);
        usage.hidden_evict_seconds = shared(computing, evicting);
        usage.busy_seconds = total(computing);
        usage.exposed_seconds = total(usage.exposed);
        usage.bubble_seconds = seconds - usage.busy_seconds;
        usage.communication_seconds = total(communicating);
        usage.overlapped_seconds = shared(computing, communicating);
        usage.peak_bytes = peak_of(program::Memory::device);
        usage.peak_pinned_bytes = peak_of(program::Memory::pinned);
        return usage;
    }

  private:
    program::QueueKind kind(std::size_t i) const {
        return program_.queues[program_.instructions[i].queue.index()].kind;
    }
    bool computes(std::size_t i) const { return kind(i) == program::QueueKind::compute; }

    std::int64_t peak_of(program::Memory memory) const {
        std::int64_t peak = 0;
        for (program::MemoryPoint const& point :
             program::memory_over_time(program_, spans_, memory))
            peak = std::max(peak, point.bytes);
        return peak;
    }

    /// Parts of the gap before computation `i` in which something it waits for is under way.
    std::vector<Span> exposed(std::size_t i, Span gap) {
        std::vector<Span> waited;
        std::vector<std::size_t> open{i};
        ++visit_;
        auto const reach = [&](std::int64_t other) {
            auto const o = static_cast<std::size_t>(other);
            if (other < 0 || seen_[o] == visit_ || computes(o) || spans_[o].end <= gap.start)
                return;
            seen_[o] = visit_;
            open.push_back(o);
            waited.push_back(
                {std::max(gap.start, under_way_[o].start), std::min(gap.end, under_way_[o].end)});
        };
        while (!open.empty()) {
            std::size_t const at = open.back();
            open.pop_back();
            for (core::InstructionId const id : program_.instructions[at].after)
                reach(id.value);
            if (at != i)
                reach(before_[at]);
        }
        return merged(std::move(waited));
    }

    program::Program const& program_;
    std::vector<Span> const& spans_;
    std::vector<Span> const& under_way_;
    std::vector<std::int64_t> before_; ///< of the same queue, or -1
    std::vector<std::uint32_t> seen_;
    std::uint32_t visit_ = 0;
};

} // namespace

std::vector<std::vector<Span>> under_way(program::ProgramSet const& set,
                                         program::Timeline const& timeline,
                                         Meetings const& meetings) {
    EVENER_EXPECT(timeline.ranks.size() == set.programs.size());
    std::vector<std::vector<Span>> spans = timeline.ranks;
    auto const at = [&](Place place) -> Span& {
        return spans[place.rank.index()][place.instruction.index()];
    };
    // Only starts change, and each instruction meets once, so the originals can be overwritten.
    auto const meet = [&](Place place, double together) {
        at(place).start = std::min(std::max(at(place).start, together), at(place).end);
    };
    for (auto const& [send, receive] : meetings.messages) {
        double const together = std::max(at(send).start, at(receive).start);
        meet(send, together);
        meet(receive, together);
    }
    for (std::vector<Place> const& participants : meetings.collectives) {
        double together = 0;
        for (Place const place : participants)
            together = std::max(together, at(place).start);
        for (Place const place : participants)
            meet(place, together);
    }
    return spans;
}

Usage usage_of(program::ProgramSet const& set, program::Timeline const& timeline,
               Meetings const& meetings) {
    std::vector<std::vector<Span>> const moving = under_way(set, timeline, meetings);
    Usage usage{timeline.seconds(), {}};
    for (std::size_t r = 0; r < set.programs.size(); ++r)
        usage.ranks.push_back(
            RankCount{set.programs[r], timeline.ranks[r], moving[r]}.count(usage.seconds));
    return usage;
}

Usage usage_of(program::ProgramSet const& set, program::Timeline const& timeline) {
    return usage_of(set, timeline, find_meetings(set));
}

std::string to_string(Usage const& usage) {
    RankUsage sum;
    std::size_t fullest = 0;
    for (std::size_t r = 0; r < usage.ranks.size(); ++r) {
        sum.busy_seconds += usage.ranks[r].busy_seconds;
        sum.bubble_seconds += usage.ranks[r].bubble_seconds;
        sum.exposed_seconds += usage.ranks[r].exposed_seconds;
        sum.fetch_seconds += usage.ranks[r].fetch_seconds;
        sum.hidden_fetch_seconds += usage.ranks[r].hidden_fetch_seconds;
        if (usage.ranks[r].peak_bytes > usage.ranks[fullest].peak_bytes)
            fullest = r;
    }
    double const all = usage.seconds * static_cast<double>(usage.ranks.size());
    std::string text =
        fmt::format("{}, busy {}, bubble {} (of it exposed communication {})",
                    time_text(usage.seconds), percent_text(sum.busy_seconds, all),
                    percent_text(sum.bubble_seconds, all), percent_text(sum.exposed_seconds, all));
    if (sum.fetch_seconds > 0)
        text += fmt::format(", fetches {} behind computations",
                            percent_text(sum.hidden_fetch_seconds, sum.fetch_seconds));
    if (!usage.ranks.empty())
        text += fmt::format(
            ", peak {} on rank {}",
            core::size_text(static_cast<double>(usage.ranks[fullest].peak_bytes), 3), fullest);
    return text;
}

} // namespace evener::schedule
