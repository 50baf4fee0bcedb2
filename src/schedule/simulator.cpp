// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulator.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <span>

namespace evener::schedule {

using core::RankId;
using program::Instruction;
using program::ProgramSet;
using program::QueueKind;
using program::Span;

namespace {

/// Index of an instruction among those of all ranks.
using Node = std::int32_t;
constexpr Node none = -1;

struct Message {
    Node send = none;
    Node receive = none;
    std::int32_t wire = -1;
    double seconds = 0; ///< on the wire
    double latency_seconds = 0;
    bool gone = false;
    /// What it queued behind: a Send, or the participant whose start began an exchange.
    Node wire_blocker = none;
};

/// A part of a collective that goes from one participant to another.
struct Exchange {
    std::size_t src = 0; ///< among the participants
    std::size_t dst = 0;
    std::int64_t bytes = 0;
};

struct Collective {
    std::vector<Node> participants;
    std::vector<Exchange> exchanges;
    bool scalars = false;
    std::size_t started = 0;
    Node last = none;            ///< participant that started last
    std::vector<double> own_end; ///< of what each sends and receives
};

struct State {
    double start = -1;
    double end = -1;
    double arrival = -1;      ///< of a receive, once its message has left
    std::int32_t missing = 0; ///< what must happen before it can start
    Node next_receive = none; ///< in its queue
    Node previous_receive = none;
    std::int32_t meeting = -1; ///< index of its message or collective
    QueueKind kind = QueueKind::compute;
    Cause cause = Cause::nothing;
    Node cause_node = none;
};

struct Dependent {
    Node node = none;
    Cause cause = Cause::order;
};

class Run {
  public:
    Run(ProgramSet const& set, program::InstructionSeconds const& seconds,
        program::Network const& network)
        : set_{set}, seconds_{seconds}, network_{network} {
        EVENER_EXPECT(seconds.size() == set.programs.size());
        std::size_t count = 0;
        for (std::size_t r = 0; r < set.programs.size(); ++r) {
            EVENER_EXPECT(seconds[r].size() == set.programs[r].instructions.size());
            base_.push_back(static_cast<Node>(count));
            count += set.programs[r].instructions.size();
        }
        base_.push_back(static_cast<Node>(count));
        states_.resize(count);
        wires_.resize(network.wires.size());
        connect_queues();
        connect_partners();
    }

    Simulation run() {
        for (Node node = 0; node < std::ssize(states_); ++node)
            if (state(node).missing == 0 && state(node).start < 0)
                start(node, 0);
        while (!ends_.empty()) {
            auto const [seconds, node] = ends_.top();
            ends_.pop();
            for (Dependent const& next : after_end(node))
                resolve(next, node, seconds);
        }
        Simulation result;
        result.timeline.ranks.resize(set_.programs.size());
        for (std::size_t r = 0; r < set_.programs.size(); ++r)
            for (Node node = base_[r]; node < base_[r + 1]; ++node) {
                if (state(node).end < 0)
                    throw core::ContractViolation{
                        "a program that is simulated cannot end; first: " +
                        to_string(instruction(node))};
                result.timeline.ranks[r].push_back(span(node));
            }
        result.seconds = result.timeline.seconds();
        result.critical_path = critical_path();
        for (WireState const& wire : wires_)
            result.wire_busy_seconds.push_back(wire.busy);
        return result;
    }

  private:
    struct WireState {
        double free = 0;
        double busy = 0;
        Node last = none;
    };

    State& state(Node node) { return states_[static_cast<std::size_t>(node)]; }
    State const& state(Node node) const { return states_[static_cast<std::size_t>(node)]; }
    Span span(Node node) const { return {state(node).start, state(node).end}; }
    Node node_of(Place place) const { return base_[place.rank.index()] + place.instruction.value; }
    std::size_t rank_of(Node node) const {
        return static_cast<std::size_t>(std::upper_bound(base_.begin(), base_.end(), node) -
                                        base_.begin() - 1);
    }
    Place place(Node node) const {
        std::size_t const r = rank_of(node);
        return {RankId{static_cast<std::int64_t>(r)}, core::InstructionId{node - base_[r]}};
    }
    Instruction const& instruction(Node node) const {
        Place const at = place(node);
        return set_.programs[at.rank.index()].instructions[at.instruction.index()];
    }

    // --- what waits for what

    void connect_queues() {
        std::vector<std::pair<Node, Dependent>> edges; // end of the first, start of the second
        for (program::Program const& program : set_.programs) {
            Node const base = base_[program.rank.index()];
            std::vector<Node> last(program.queues.size(), none);
            for (std::size_t i = 0; i < program.instructions.size(); ++i) {
                Instruction const& instruction = program.instructions[i];
                Node const node = base + static_cast<Node>(i);
                Node& before = last[instruction.queue.index()];
                state(node).kind = program.queues[instruction.queue.index()].kind;
                if (before != none && state(node).kind == QueueKind::receive) {
                    state(before).next_receive = node;
                    state(node).previous_receive = before;
                    ++state(node).missing;
                } else if (before != none) {
                    edges.push_back({before, {node, Cause::order}});
                }
                before = node;
                for (core::InstructionId const id : instruction.after)
                    edges.push_back({base + id.value, {node, Cause::wait}});
            }
        }
        begins_.assign(states_.size() + 1, 0);
        for (auto const& [from, to] : edges) {
            ++begins_[static_cast<std::size_t>(from) + 1];
            ++state(to.node).missing;
        }
        for (std::size_t i = 0; i < states_.size(); ++i)
            begins_[i + 1] += begins_[i];
        dependents_.resize(edges.size());
        std::vector<std::int32_t> next = begins_;
        for (auto const& [from, to] : edges)
            dependents_[static_cast<std::size_t>(next[static_cast<std::size_t>(from)]++)] = to;
    }

    std::span<Dependent const> after_end(Node node) const {
        auto const begin = static_cast<std::size_t>(begins_[static_cast<std::size_t>(node)]);
        auto const end = static_cast<std::size_t>(begins_[static_cast<std::size_t>(node) + 1]);
        return {dependents_.data() + begin, end - begin};
    }

    void connect_partners() {
        Meetings const meetings = find_meetings(set_);
        for (auto const& [send, receive] : meetings.messages) {
            Message message;
            message.send = node_of(send);
            message.receive = node_of(receive);
            message.wire = network_.wire_between(send.rank, receive.rank);
            if (message.wire >= 0) {
                program::Wire const& wire = network_.wires[static_cast<std::size_t>(message.wire)];
                auto const& op = std::get<program::Send>(instruction(message.send).operation);
                message.seconds = static_cast<double>(op.bytes) * wire.seconds_per_byte;
                message.latency_seconds = wire.latency_seconds;
            }
            state(message.send).meeting = static_cast<std::int32_t>(messages_.size());
            state(message.receive).meeting = static_cast<std::int32_t>(messages_.size());
            messages_.push_back(message);
        }
        for (std::vector<Place> const& places : meetings.collectives) {
            Collective collective;
            for (Place const at : places) {
                collective.participants.push_back(node_of(at));
                state(node_of(at)).meeting = static_cast<std::int32_t>(collectives_.size());
            }
            collective.own_end.assign(places.size(), 0);
            plan_exchanges(collective, places);
            collectives_.push_back(std::move(collective));
        }
    }

    void plan_exchanges(Collective& collective, std::vector<Place> const& places) const {
        auto const& operation = instruction(collective.participants.front()).operation;
        auto const* const gather = std::get_if<program::GatherParameters>(&operation);
        auto const* const reduce = std::get_if<program::ReduceGradients>(&operation);
        collective.scalars = gather == nullptr && reduce == nullptr;
        if (collective.scalars)
            return;
        program::Bucket const& bucket =
            set_.buckets[(gather ? gather->bucket : reduce->bucket).index()];
        for (std::size_t a = 0; a < places.size(); ++a)
            for (std::size_t b = 0; b < places.size(); ++b) {
                RankId const owner = places[a].rank;
                RankId const holder = places[b].rank;
                std::int64_t const elements = bucket.shard_of(owner).size();
                if (a == b || elements == 0 || !bucket.holds(holder))
                    continue;
                if (gather)
                    collective.exchanges.push_back(
                        {a, b, elements * core::bytes_of(bucket.type_of(holder))});
                else
                    collective.exchanges.push_back({b, a, elements * 4});
            }
    }

    // --- the run

    void resolve(Dependent const& dependent, Node from, double seconds) {
        State& waiting = state(dependent.node);
        waiting.cause = dependent.cause;
        waiting.cause_node = from;
        if (--waiting.missing == 0)
            start(dependent.node, seconds);
    }

    void end(Node node, double seconds) {
        state(node).end = seconds;
        ends_.push({seconds, node});
    }

    void start(Node node, double now) {
        // A receive that starts lets the next of its queue start: a loop, since there may be many.
        while (node != none) {
            State& started = state(node);
            started.start = now;
            switch (started.kind) {
            case QueueKind::compute: {
                Place const at = place(node);
                end(node, now + seconds_[at.rank.index()][at.instruction.index()]);
                return;
            }
            case QueueKind::send:
                leave_if_ready(started.meeting, now);
                return;
            case QueueKind::collective:
                join(started.meeting, node, now);
                return;
            case QueueKind::receive: {
                leave_if_ready(started.meeting, now);
                Node const next = started.next_receive;
                if (next != none) {
                    state(next).cause = Cause::order;
                    state(next).cause_node = node;
                }
                node = next != none && --state(next).missing == 0 ? next : none;
                break;
            }
            }
        }
    }

    /// Takes the wire; when the message has left.
    double leave(std::int32_t wire, double seconds, Node by, double now, Node* blocker) {
        if (wire < 0)
            return now;
        WireState& state = wires_[static_cast<std::size_t>(wire)];
        if (state.free > now && blocker != nullptr)
            *blocker = state.last;
        state.free = std::max(state.free, now) + seconds;
        state.busy += seconds;
        state.last = by;
        return state.free;
    }

    void leave_if_ready(std::int32_t meeting, double now) {
        if (meeting < 0)
            return; // without partner: it never ends
        Message& message = messages_[static_cast<std::size_t>(meeting)];
        if (message.gone || state(message.send).start < 0 || state(message.receive).start < 0)
            return;
        message.gone = true;
        double const left =
            leave(message.wire, message.seconds, message.send, now, &message.wire_blocker);
        end(message.send, left);
        state(message.receive).arrival = left + message.latency_seconds;
        arrive(message.receive);
    }

    /// Receives of a queue end in order.
    void arrive(Node node) {
        while (node != none && state(node).arrival >= 0 && state(node).end < 0) {
            Node const before = state(node).previous_receive;
            if (before != none && state(before).end < 0)
                return;
            end(node, std::max(state(node).arrival, before != none ? state(before).end : 0));
            node = state(node).next_receive;
        }
    }

    void join(std::int32_t meeting, Node node, double now) {
        if (meeting < 0)
            return;
        Collective& collective = collectives_[static_cast<std::size_t>(meeting)];
        collective.last = node;
        ++collective.started;
        auto const has_started = [&](std::size_t i) {
            return state(collective.participants[i]).start >= 0;
        };
        for (Exchange const& exchange : collective.exchanges) {
            Node const src = collective.participants[exchange.src];
            Node const dst = collective.participants[exchange.dst];
            if ((src != node && dst != node) || !has_started(exchange.src) ||
                !has_started(exchange.dst))
                continue;
            auto const [wire, seconds, latency] = path(src, dst, exchange.bytes);
            double const left = leave(wire, seconds, node, now, nullptr);
            auto& ends = collective.own_end;
            ends[exchange.src] = std::max(ends[exchange.src], left);
            ends[exchange.dst] = std::max(ends[exchange.dst], left + latency);
        }
        if (collective.started < collective.participants.size())
            return;
        if (collective.scalars)
            pass_scalars(collective);
        for (std::size_t i = 0; i < collective.participants.size(); ++i)
            end(collective.participants[i], std::max(now, collective.own_end[i]));
    }

    struct Path {
        std::int32_t wire = -1;
        double seconds = 0;
        double latency = 0;
    };
    Path path(Node src, Node dst, std::int64_t bytes) const {
        std::int32_t const index = network_.wire_between(place(src).rank, place(dst).rank);
        if (index < 0)
            return {};
        program::Wire const& wire = network_.wires[static_cast<std::size_t>(index)];
        return {index, static_cast<double>(bytes) * wire.seconds_per_byte, wire.latency_seconds};
    }

    /// To the first participant and back.
    void pass_scalars(Collective& collective) const {
        Node const root = collective.participants.front();
        double all = state(root).start;
        for (Node const other : collective.participants)
            if (other != root)
                all = std::max(all, state(other).start + path(other, root, 0).latency);
        for (std::size_t i = 0; i < collective.participants.size(); ++i) {
            Node const other = collective.participants[i];
            collective.own_end[i] = all + (other == root ? 0 : path(root, other, 0).latency);
        }
    }

    // --- what the length depends on

    /// What a node's start waited for. Receives of a queue are posted one after the other, so behind
    /// one there is what the first of them waited for.
    Dependent start_cause(Node node) const {
        Dependent why{state(node).cause_node, state(node).cause};
        while (why.node != none && state(node).kind == QueueKind::receive &&
               why.cause == Cause::order) {
            node = why.node;
            why = {state(node).cause_node, state(node).cause};
        }
        return why;
    }

    /// Of a node on the path: what its end waited for besides itself, and why.
    Dependent blame(Node node) const {
        State const& own = state(node);
        if (own.meeting < 0 || own.kind == QueueKind::compute)
            return start_cause(node);
        if (own.kind == QueueKind::collective) {
            Node const last = collectives_[static_cast<std::size_t>(own.meeting)].last;
            Dependent const why = start_cause(last);
            return {why.node, last == node ? why.cause : Cause::partner};
        }
        Message const& message = messages_[static_cast<std::size_t>(own.meeting)];
        if (node == message.receive)
            return {message.send, Cause::partner};
        if (message.wire_blocker != none) {
            bool const exchange = state(message.wire_blocker).kind == QueueKind::collective;
            return {exchange ? start_cause(message.wire_blocker).node : message.wire_blocker,
                    Cause::wire};
        }
        if (state(message.receive).start > own.start)
            return {start_cause(message.receive).node, Cause::buffer};
        return start_cause(node);
    }

    std::vector<CriticalStep> critical_path() const {
        Node node = none;
        for (Node i = 0; i < std::ssize(states_); ++i)
            if (node == none || state(i).end > state(node).end)
                node = i;
        std::vector<CriticalStep> steps;
        while (node != none && steps.size() <= states_.size()) {
            Dependent const why = blame(node);
            steps.push_back(
                {place(node), span(node), why.node == none ? Cause::nothing : why.cause});
            node = why.node;
        }
        std::reverse(steps.begin(), steps.end());
        return steps;
    }

    using End = std::pair<double, Node>;

    ProgramSet const& set_;
    program::InstructionSeconds const& seconds_;
    program::Network const& network_;
    std::vector<Node> base_; ///< first node of each rank, and the end
    std::vector<State> states_;
    std::vector<Dependent> dependents_;
    std::vector<std::int32_t> begins_; ///< of each node's dependents, and the end
    std::vector<Message> messages_;
    std::vector<Collective> collectives_;
    std::vector<WireState> wires_;
    std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

} // namespace

Simulation simulate(ProgramSet const& set, program::InstructionSeconds const& seconds,
                    program::Network const& network) {
    return Run{set, seconds, network}.run();
}

} // namespace evener::schedule
