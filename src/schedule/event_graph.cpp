// SPDX-License-Identifier: Apache-2.0
#include "schedule/event_graph.hpp"

#include <algorithm>

namespace evener::schedule {

using core::RankId;
using program::Instruction;
using program::QueueKind;

EventGraph::EventGraph(program::ProgramSet const& set, program::Network const& network)
    : set_{set}, network_{network} {
    std::size_t count = 0;
    for (program::Program const& program : set.programs) {
        base_.push_back(static_cast<Node>(count));
        count += program.instructions.size();
    }
    base_.push_back(static_cast<Node>(count));
    facts_.resize(count);
    connect_queues();
    connect_partners();
}

Place EventGraph::place(Node node) const {
    auto const rank = std::upper_bound(base_.begin(), base_.end(), node) - base_.begin() - 1;
    return {RankId{rank}, core::InstructionId{node - base_[static_cast<std::size_t>(rank)]}};
}

Instruction const& EventGraph::instruction(Node node) const {
    Place const at = place(node);
    return set_.programs[at.rank.index()].instructions[at.instruction.index()];
}

std::span<Dependent const> EventGraph::after_end(Node node) const {
    auto const begin = static_cast<std::size_t>(begins_[static_cast<std::size_t>(node)]);
    auto const end = static_cast<std::size_t>(begins_[static_cast<std::size_t>(node) + 1]);
    return {dependents_.data() + begin, end - begin};
}

Path EventGraph::path(Node src, Node dst, std::int64_t bytes) const {
    std::int32_t const index = network_.wire_between(place(src).rank, place(dst).rank);
    if (index < 0)
        return {};
    program::Wire const& wire = network_.wires[static_cast<std::size_t>(index)];
    return {index, static_cast<double>(bytes) * wire.seconds_per_byte, wire.latency_seconds};
}

void EventGraph::connect_queues() {
    std::vector<std::pair<Node, Dependent>> edges; // end of the first, start of the second
    for (program::Program const& program : set_.programs) {
        Node const base = base_[program.rank.index()];
        std::vector<Node> last(program.queues.size(), no_node);
        for (std::size_t i = 0; i < program.instructions.size(); ++i) {
            Instruction const& instruction = program.instructions[i];
            Node const node = base + static_cast<Node>(i);
            Node& before = last[instruction.queue.index()];
            own_facts(node).kind = program.queues[instruction.queue.index()].kind;
            if (before != no_node && own_facts(node).kind == QueueKind::receive) {
                own_facts(before).next_receive = node;
                own_facts(node).previous_receive = before;
                ++own_facts(node).missing;
            } else if (before != no_node) {
                edges.push_back({before, {node, Cause::order}});
            }
            before = node;
            for (core::InstructionId const id : instruction.after)
                edges.push_back({base + id.value, {node, Cause::wait}});
        }
    }
    begins_.assign(facts_.size() + 1, 0);
    for (auto const& [from, to] : edges) {
        ++begins_[static_cast<std::size_t>(from) + 1];
        ++own_facts(to.node).missing;
    }
    for (std::size_t i = 0; i < facts_.size(); ++i)
        begins_[i + 1] += begins_[i];
    dependents_.resize(edges.size());
    std::vector<std::int32_t> next = begins_;
    for (auto const& [from, to] : edges)
        dependents_[static_cast<std::size_t>(next[static_cast<std::size_t>(from)]++)] = to;
}

void EventGraph::connect_partners() {
    Meetings const meetings = find_meetings(set_);
    for (auto const& [send, receive] : meetings.messages) {
        MessageEnds message{node_of(send), node_of(receive), {}};
        message.path = path(message.send, message.receive,
                            std::get<program::Send>(instruction(message.send).operation).bytes);
        own_facts(message.send).meeting = static_cast<std::int32_t>(messages_.size());
        own_facts(message.receive).meeting = static_cast<std::int32_t>(messages_.size());
        messages_.push_back(message);
    }
    for (std::vector<Place> const& places : meetings.collectives) {
        CollectiveEnds collective;
        for (Place const at : places) {
            collective.participants.push_back(node_of(at));
            own_facts(node_of(at)).meeting = static_cast<std::int32_t>(collectives_.size());
        }
        plan_exchanges(collective, places);
        collectives_.push_back(std::move(collective));
    }
}

void EventGraph::plan_exchanges(CollectiveEnds& collective,
                                std::vector<Place> const& places) const {
    auto const& operation = instruction(collective.participants.front()).operation;
    auto const* const gather = std::get_if<program::GatherParameters>(&operation);
    auto const* const reduce = std::get_if<program::ReduceGradients>(&operation);
    collective.scalars = gather == nullptr && reduce == nullptr;
    if (collective.scalars)
        return;
    program::Bucket const& bucket =
        set_.buckets[(gather ? gather->bucket : reduce->bucket).index()];
    auto const add = [&](std::size_t src, std::size_t dst, std::int64_t bytes) {
        collective.exchanges.push_back(
            {src, dst, path(collective.participants[src], collective.participants[dst], bytes)});
    };
    for (std::size_t a = 0; a < places.size(); ++a)
        for (std::size_t b = 0; b < places.size(); ++b) {
            RankId const holder = places[b].rank;
            std::int64_t const elements = bucket.shard_of(places[a].rank).size();
            if (a == b || elements == 0 || !bucket.holds(holder))
                continue;
            if (gather)
                add(a, b, elements * core::bytes_of(bucket.type_of(holder)));
            else
                add(b, a, elements * 4);
        }
}

} // namespace evener::schedule
