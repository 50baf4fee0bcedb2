// SPDX-License-Identifier: Apache-2.0
#include "schedule/happens_before.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace evener::schedule {

namespace {

using program::Instruction;
using program::Program;
using program::ProgramSet;

// (direction, chunk, microbatch, source, destination)
using MessageKey = std::tuple<int, std::int32_t, std::int32_t, std::int32_t, std::int32_t>;
// (kind, bucket); ReduceScalars has no bucket
using CollectiveKey = std::pair<std::size_t, std::int32_t>;

MessageKey key_of(program::Message const& message, core::RankId src, core::RankId dst) {
    return {static_cast<int>(message.direction), message.chunk.value, message.microbatch.value,
            src.value, dst.value};
}

/// Calls back for every instruction that meets others.
struct Collect {
    Place place;
    std::map<MessageKey, std::pair<std::vector<Place>, std::vector<Place>>>& messages;
    std::map<CollectiveKey, std::map<core::RankId, std::vector<Place>>>& collectives;

    void collective(std::size_t kind, std::int32_t bucket) const {
        collectives[{kind, bucket}][place.rank].push_back(place);
    }
    void operator()(program::Send const& op) const {
        messages[key_of(op, place.rank, op.peer)].first.push_back(place);
    }
    void operator()(program::Receive const& op) const {
        messages[key_of(op, op.peer, place.rank)].second.push_back(place);
    }
    void operator()(program::GatherParameters const& op) const { collective(0, op.bucket.value); }
    void operator()(program::ReduceGradients const& op) const { collective(1, op.bucket.value); }
    void operator()(program::ReduceScalars const&) const { collective(2, -1); }
    template <class Op>
    void operator()(Op const&) const {}
};

} // namespace

Meetings find_meetings(ProgramSet const& set) {
    std::map<MessageKey, std::pair<std::vector<Place>, std::vector<Place>>> messages;
    std::map<CollectiveKey, std::map<core::RankId, std::vector<Place>>> collectives;
    for (Program const& program : set.programs)
        for (std::size_t i = 0; i < program.instructions.size(); ++i)
            std::visit(Collect{{program.rank, core::InstructionId{static_cast<std::int64_t>(i)}},
                               messages,
                               collectives},
                       program.instructions[i].operation);

    Meetings meetings;
    for (auto const& [key, ends] : messages) {
        auto const& [sends, receives] = ends;
        std::size_t const pairs = std::min(sends.size(), receives.size());
        for (std::size_t k = 0; k < pairs; ++k)
            meetings.messages.emplace_back(sends[k], receives[k]);
        for (auto const* side : {&sends, &receives})
            meetings.unmatched.insert(meetings.unmatched.end(),
                                      side->begin() + static_cast<std::ptrdiff_t>(pairs),
                                      side->end());
    }
    for (auto const& [key, ranks] : collectives) {
        std::size_t rounds = 0;
        for (auto const& [rank, places] : ranks)
            rounds = std::max(rounds, places.size());
        for (std::size_t k = 0; k < rounds; ++k) {
            auto& participants = meetings.collectives.emplace_back();
            for (auto const& [rank, places] : ranks)
                if (k < places.size())
                    participants.push_back(places[k]);
        }
    }
    return meetings;
}

/// Events and edges. Event 2i of a rank is the start of its instruction i, 2i + 1 its end; each
/// collective adds one event that all its participants' starts precede and all ends follow.
struct HappensBefore::Graph {
    std::vector<std::uint32_t> base; ///< first event of each rank
    std::uint32_t events = 0;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> edges;
    std::vector<std::uint32_t> begin;        ///< of the predecessors of each event
    std::vector<std::uint32_t> predecessors; ///< by event
    std::vector<std::uint32_t> order;        ///< topological; what a cycle holds back is missing

    Graph(ProgramSet const& set, Meetings const& meetings) {
        for (Program const& program : set.programs) {
            base.push_back(events);
            events += 2 * static_cast<std::uint32_t>(program.instructions.size());
        }
        for (Program const& program : set.programs)
            add_program(program);
        for (auto const& [send, receive] : meetings.messages) {
            edges.emplace_back(start(receive), end(send));
            edges.emplace_back(start(send), end(receive));
        }
        for (auto const& participants : meetings.collectives) {
            for (Place const place : participants) {
                edges.emplace_back(start(place), events);
                edges.emplace_back(events, end(place));
            }
            ++events;
        }
        index_predecessors();
    }

    std::uint32_t start(Place place) const {
        return base[place.rank.index()] + 2 * static_cast<std::uint32_t>(place.instruction.value);
    }
    std::uint32_t end(Place place) const { return start(place) + 1; }

    void add_program(Program const& program) {
        std::vector<std::int64_t> before(program.queues.size(), -1);
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            Instruction const& instruction = program.instructions[i];
            Place const here{program.rank, core::InstructionId{static_cast<std::int64_t>(i)}};
            edges.emplace_back(start(here), end(here));
            for (core::InstructionId const id : instruction.after)
                edges.emplace_back(end({program.rank, id}), start(here));
            std::int64_t& previous = before[instruction.queue.index()];
            if (previous >= 0) {
                Place const earlier{program.rank, core::InstructionId{previous}};
                if (program.queues[instruction.queue.index()].kind == program::QueueKind::receive) {
                    edges.emplace_back(start(earlier), start(here));
                    edges.emplace_back(end(earlier), end(here));
                } else {
                    edges.emplace_back(end(earlier), start(here));
                }
            }
            previous = static_cast<std::int64_t>(i);
        }
    }

    void index_predecessors() {
        begin.assign(events + 1, 0);
        for (auto const& [from, to] : edges)
            ++begin[to + 1];
        for (std::uint32_t e = 0; e < events; ++e)
            begin[e + 1] += begin[e];
        predecessors.resize(edges.size());
        std::vector<std::uint32_t> next{begin.begin(), begin.end() - 1};
        for (auto const& [from, to] : edges)
            predecessors[next[to]++] = from;
    }

    /// Fills `order`; returns how many predecessors each event still waits for.
    std::vector<std::uint32_t> sort() {
        std::vector<std::uint32_t> first(events + 1, 0);
        for (auto const& [from, to] : edges)
            ++first[from + 1];
        for (std::uint32_t e = 0; e < events; ++e)
            first[e + 1] += first[e];
        std::vector<std::uint32_t> successors(edges.size());
        std::vector<std::uint32_t> next{first.begin(), first.end() - 1};
        for (auto const& [from, to] : edges)
            successors[next[from]++] = to;

        std::vector<std::uint32_t> waiting(events);
        order.reserve(events);
        for (std::uint32_t e = 0; e < events; ++e) {
            waiting[e] = begin[e + 1] - begin[e];
            if (waiting[e] == 0)
                order.push_back(e);
        }
        for (std::size_t k = 0; k < order.size(); ++k)
            for (std::uint32_t s = first[order[k]]; s < first[order[k] + 1]; ++s)
                if (--waiting[successors[s]] == 0)
                    order.push_back(successors[s]);
        return waiting;
    }
};

HappensBefore::HappensBefore(ProgramSet const& set, Meetings const& meetings) {
    number_queues(set);
    Graph graph{set, meetings};
    std::vector<std::uint32_t> const waiting = graph.sort();
    if (graph.order.size() < graph.events)
        find_cycle(set, graph, waiting);
    else
        propagate(set, graph);
}

void HappensBefore::number_queues(ProgramSet const& set) {
    for (Program const& program : set.programs) {
        RankClocks& clocks = ranks_.emplace_back();
        clocks.queue_count = program.queues.size();
        std::vector<std::uint32_t> lengths(clocks.queue_count, 0);
        for (Instruction const& instruction : program.instructions) {
            clocks.queue.push_back(static_cast<std::uint32_t>(instruction.queue.value));
            clocks.position.push_back(lengths[instruction.queue.index()]++);
        }
    }
}

void HappensBefore::find_cycle(ProgramSet const& set, Graph const& graph,
                               std::vector<std::uint32_t> const& waiting) {
    // Whatever still waits has a predecessor that still waits: walking back must come round.
    auto const held = static_cast<std::uint32_t>(
        std::find_if(waiting.begin(), waiting.end(), [](std::uint32_t w) { return w > 0; }) -
        waiting.begin());
    std::vector<std::int64_t> seen(graph.events, -1);
    std::vector<std::uint32_t> path;
    std::uint32_t event = held;
    while (seen[event] < 0) {
        seen[event] = std::ssize(path);
        path.push_back(event);
        auto const first = graph.predecessors.begin() + graph.begin[event];
        auto const last = graph.predecessors.begin() + graph.begin[event + 1];
        event = *std::find_if(first, last, [&](std::uint32_t p) { return waiting[p] > 0; });
    }
    for (std::size_t k = static_cast<std::size_t>(seen[event]); k < path.size(); ++k) {
        auto const next = std::upper_bound(graph.base.begin(), graph.base.end(), path[k]);
        auto const rank = static_cast<std::size_t>(next - graph.base.begin()) - 1;
        std::uint32_t const instruction = (path[k] - graph.base[rank]) / 2;
        if (instruction >= set.programs[rank].instructions.size())
            continue; // the event of a collective
        Place const place{set.programs[rank].rank, core::InstructionId{instruction}};
        if (cycle_.empty() || cycle_.back() != place)
            cycle_.push_back(place);
    }
    if (cycle_.size() > 1 && cycle_.front() == cycle_.back())
        cycle_.pop_back();
}

void HappensBefore::propagate(ProgramSet const& set, Graph const& graph) {
    // A clock of an event counts, per queue of one rank, how many instructions have ended before
    // it. Ends on a queue are in order, so a count says which. One rank at a time keeps the memory
    // at events x queues.
    std::vector<std::uint32_t> place_of(graph.events);
    for (std::uint32_t k = 0; k < graph.events; ++k)
        place_of[graph.order[k]] = k;
    std::vector<std::uint32_t> clock;
    for (std::size_t r = 0; r < set.programs.size(); ++r) {
        RankClocks& own = ranks_[r];
        std::size_t const width = own.queue_count;
        std::uint32_t const first = graph.base[r];
        std::uint32_t const last =
            first + 2 * static_cast<std::uint32_t>(set.programs[r].instructions.size());
        own.ended.assign(set.programs[r].instructions.size() * width, 0);
        own.order.resize(set.programs[r].instructions.size());
        clock.assign(graph.events * width, 0);
        for (std::uint32_t k = 0; k < graph.events; ++k) {
            std::uint32_t const event = graph.order[k];
            std::uint32_t* const row = &clock[k * width];
            for (std::uint32_t p = graph.begin[event]; p < graph.begin[event + 1]; ++p) {
                std::uint32_t const* const from = &clock[place_of[graph.predecessors[p]] * width];
                for (std::size_t q = 0; q < width; ++q)
                    row[q] = std::max(row[q], from[q]);
            }
            if (event < first || event >= last)
                continue;
            std::uint32_t const i = (event - first) / 2;
            if ((event - first) % 2 == 0) {
                std::copy(row, row + width, &own.ended[i * width]);
                own.order[i] = k;
            } else {
                row[own.queue[i]] = std::max(row[own.queue[i]], own.position[i] + 1);
            }
        }
    }
}

bool HappensBefore::ends_before_start(core::RankId rank, core::InstructionId a,
                                      core::InstructionId b) const {
    RankClocks const& own = ranks_[rank.index()];
    return own.ended[b.index() * own.queue_count + own.queue[a.index()]] > own.position[a.index()];
}

} // namespace evener::schedule
