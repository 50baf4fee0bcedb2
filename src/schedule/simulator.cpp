// SPDX-License-Identifier: Apache-2.0
#include "schedule/simulator.hpp"

#include "schedule/event_graph.hpp"

#include <algorithm>
#include <functional>
#include <queue>

namespace evener::schedule {

using program::ProgramSet;
using program::QueueKind;
using program::Span;

namespace {

/// How far an instruction has come; times are -1 until they are known.
struct State {
    double start = -1;
    double end = -1;
    double arrival = -1; ///< of a receive, once its message has left
    std::int32_t missing = 0;
    Cause cause = Cause::nothing; ///< of its start
    Node cause_node = no_node;
};

struct MessageState {
    bool gone = false;
    /// What it queued behind: a Send, or the participant whose start began an exchange.
    Node wire_blocker = no_node;
};

struct CollectiveState {
    std::size_t started = 0;
    Node last = no_node;         ///< participant that started last
    std::vector<double> own_end; ///< of what each participant sends and receives
};

struct WireState {
    double free = 0;
    double busy = 0;
    Node last = no_node; ///< that took it
};

class Run {
  public:
    Run(ProgramSet const& set, program::InstructionSeconds const& seconds,
        program::Network const& network)
        : seconds_{seconds}, graph_{set, network}, rank_count_{set.programs.size()},
          states_(static_cast<std::size_t>(graph_.size())), messages_(graph_.messages().size()),
          wires_(network.wires.size()) {
        EVENER_EXPECT(seconds.size() == rank_count_);
        for (std::size_t r = 0; r < rank_count_; ++r)
            EVENER_EXPECT(seconds[r].size() == set.programs[r].instructions.size());
        for (Node node = 0; node < graph_.size(); ++node)
            state(node).missing = graph_.facts(node).missing;
        for (CollectiveEnds const& collective : graph_.collectives())
            collectives_.push_back(
                {0, no_node, std::vector<double>(collective.participants.size())});
    }

    Simulation run() {
        for (Node node = 0; node < graph_.size(); ++node)
            if (state(node).missing == 0 && state(node).start < 0)
                start(node, 0);
        while (!ends_.empty()) {
            auto const [seconds, node] = ends_.top();
            ends_.pop();
            for (Dependent const& next : graph_.after_end(node))
                resolve(next, node, seconds);
        }
        Simulation result;
        result.timeline.ranks.resize(rank_count_);
        for (std::size_t r = 0; r < rank_count_; ++r)
            for (Node node = graph_.begin_of(r); node < graph_.begin_of(r + 1); ++node) {
                if (state(node).end < 0)
                    throw core::ContractViolation{
                        "a program that is simulated cannot end; first: " +
                        to_string(graph_.instruction(node))};
                result.timeline.ranks[r].push_back(span(node));
            }
        result.seconds = result.timeline.seconds();
        result.critical_path = critical_path();
        for (WireState const& wire : wires_)
            result.wire_busy_seconds.push_back(wire.busy);
        return result;
    }

  private:
    State& state(Node node) { return states_[static_cast<std::size_t>(node)]; }
    State const& state(Node node) const { return states_[static_cast<std::size_t>(node)]; }
    NodeFacts const& facts(Node node) const { return graph_.facts(node); }
    Span span(Node node) const { return {state(node).start, state(node).end}; }

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
        while (node != no_node) {
            State& started = state(node);
            started.start = now;
            switch (facts(node).kind) {
            case QueueKind::compute:
            case QueueKind::copy_in:
            case QueueKind::copy_out: {
                Place const at = graph_.place(node);
                end(node, now + seconds_[at.rank.index()][at.instruction.index()]);
                return;
            }
            case QueueKind::send:
                leave_if_ready(facts(node).meeting, now);
                return;
            case QueueKind::collective:
                join(facts(node).meeting, node, now);
                return;
            case QueueKind::receive: {
                leave_if_ready(facts(node).meeting, now);
                Node const next = facts(node).next_receive;
                if (next != no_node) {
                    state(next).cause = Cause::order;
                    state(next).cause_node = node;
                }
                node = next != no_node && --state(next).missing == 0 ? next : no_node;
                break;
            }
            }
        }
    }

    /// Takes the wire; when the message has left.
    double leave(Path const& path, Node by, double now, Node* blocker) {
        if (path.wire < 0)
            return now;
        WireState& state = wires_[static_cast<std::size_t>(path.wire)];
        if (state.free > now && blocker != nullptr)
            *blocker = state.last;
        state.free = std::max(state.free, now) + path.seconds;
        state.busy += path.seconds;
        state.last = by;
        return state.free;
    }

    void leave_if_ready(std::int32_t meeting, double now) {
        if (meeting < 0)
            return; // without partner: it never ends
        MessageEnds const& message = graph_.messages()[static_cast<std::size_t>(meeting)];
        MessageState& own = messages_[static_cast<std::size_t>(meeting)];
        if (own.gone || state(message.send).start < 0 || state(message.receive).start < 0)
            return;
        own.gone = true;
        double const left = leave(message.path, message.send, now, &own.wire_blocker);
        // A sender that had to wait for its receiver learns late that the message is gone.
        bool const awaited = state(message.receive).start > state(message.send).start;
        end(message.send, left + (awaited ? message.path.latency_seconds : 0));
        state(message.receive).arrival = left + message.path.latency_seconds;
        arrive(message.receive);
    }

    /// Receives of a queue end in order.
    void arrive(Node node) {
        while (node != no_node && state(node).arrival >= 0 && state(node).end < 0) {
            Node const before = facts(node).previous_receive;
            if (before != no_node && state(before).end < 0)
                return;
            end(node, std::max(state(node).arrival, before != no_node ? state(before).end : 0));
            node = facts(node).next_receive;
        }
    }

    void join(std::int32_t meeting, Node node, double now) {
        if (meeting < 0)
            return;
        CollectiveEnds const& collective = graph_.collectives()[static_cast<std::size_t>(meeting)];
        CollectiveState& own = collectives_[static_cast<std::size_t>(meeting)];
        own.last = node;
        ++own.started;
        auto const started = [&](Node other) { return state(other).start >= 0; };
        for (Exchange const& exchange : collective.exchanges) {
            Node const src = collective.participants[exchange.src];
            Node const dst = collective.participants[exchange.dst];
            if ((src != node && dst != node) || !started(src) || !started(dst))
                continue;
            double const left = leave(exchange.path, node, now, nullptr);
            double const there = left + exchange.path.latency_seconds;
            own.own_end[exchange.src] = std::max(own.own_end[exchange.src], left);
            own.own_end[exchange.dst] = std::max(own.own_end[exchange.dst], there);
        }
        if (own.started < collective.participants.size())
            return;
        if (collective.scalars)
            pass_scalars(collective, own);
        for (std::size_t i = 0; i < collective.participants.size(); ++i)
            end(collective.participants[i], std::max(now, own.own_end[i]));
    }

    /// To the first participant and back.
    void pass_scalars(CollectiveEnds const& collective, CollectiveState& own) const {
        Node const root = collective.participants.front();
        double all = state(root).start;
        for (Node const other : collective.participants)
            if (other != root)
                all =
                    std::max(all, state(other).start + graph_.path(other, root, 0).latency_seconds);
        for (std::size_t i = 0; i < collective.participants.size(); ++i) {
            Node const other = collective.participants[i];
            own.own_end[i] =
                all + (other == root ? 0 : graph_.path(root, other, 0).latency_seconds);
        }
    }

    // --- what the length depends on

    /// What a node's start waited for. Receives of a queue are posted one after the other, so behind
    /// one there is what the first of them waited for.
    Dependent start_cause(Node node) const {
        Dependent why{state(node).cause_node, state(node).cause};
        while (why.node != no_node && facts(node).kind == QueueKind::receive &&
               why.cause == Cause::order) {
            node = why.node;
            why = {state(node).cause_node, state(node).cause};
        }
        return why;
    }

    /// Of a node on the path: what its end waited for besides itself, and why.
    Dependent blame(Node node) const {
        NodeFacts const& own = facts(node);
        if (own.meeting < 0)
            return start_cause(node);
        auto const meeting = static_cast<std::size_t>(own.meeting);
        if (own.kind == QueueKind::collective) {
            Node const last = collectives_[meeting].last;
            Dependent const why = start_cause(last);
            return {why.node, last == node ? why.cause : Cause::partner};
        }
        MessageEnds const& message = graph_.messages()[meeting];
        if (node == message.receive)
            return {message.send, Cause::partner};
        if (Node const blocker = messages_[meeting].wire_blocker; blocker != no_node) {
            bool const exchange = facts(blocker).kind == QueueKind::collective;
            return {exchange ? start_cause(blocker).node : blocker, Cause::wire};
        }
        if (state(message.receive).start > state(node).start)
            return {start_cause(message.receive).node, Cause::buffer};
        return start_cause(node);
    }

    std::vector<CriticalStep> critical_path() const {
        Node node = no_node;
        for (Node i = 0; i < graph_.size(); ++i)
            if (node == no_node || state(i).end > state(node).end)
                node = i;
        std::vector<CriticalStep> steps;
        while (node != no_node && steps.size() <= states_.size()) {
            Dependent const why = blame(node);
            steps.push_back(
                {graph_.place(node), span(node), why.node == no_node ? Cause::nothing : why.cause});
            node = why.node;
        }
        std::reverse(steps.begin(), steps.end());
        return steps;
    }

    using End = std::pair<double, Node>;

    program::InstructionSeconds const& seconds_;
    EventGraph graph_;
    std::size_t rank_count_;
    std::vector<State> states_;
    std::vector<MessageState> messages_;
    std::vector<CollectiveState> collectives_;
    std::vector<WireState> wires_;
    std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

} // namespace

Simulation simulate(ProgramSet const& set, program::InstructionSeconds const& seconds,
                    program::Network const& network) {
    return Run{set, seconds, network}.run();
}

} // namespace evener::schedule
