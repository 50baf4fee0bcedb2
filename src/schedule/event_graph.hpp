// SPDX-License-Identifier: Apache-2.0
#pragma once

// What waits for what in a set of programs, in a form that a simulation can run fast: instructions
// of all ranks numbered through, who waits for whose end, and which of them meet. Internal to this
// folder.

#include "program/costs.hpp"
#include "schedule/happens_before.hpp"
#include "schedule/simulator.hpp"

#include <span>
#include <vector>

namespace evener::schedule {

/// Index of an instruction among those of all ranks.
using Node = std::int32_t;
inline constexpr Node no_node = -1;

/// What leads from one instruction to another over a wire; -1: at once.
struct Path {
    std::int32_t wire = -1;
    double seconds = 0; ///< for which it occupies the wire
    double latency_seconds = 0;
};

struct MessageEnds {
    Node send = no_node;
    Node receive = no_node;
    Path path;
};

/// A part of a collective that goes from one participant to another.
struct Exchange {
    std::size_t src = 0; ///< among the participants
    std::size_t dst = 0;
    Path path;
};

struct CollectiveEnds {
    std::vector<Node> participants;
    std::vector<Exchange> exchanges;
    bool scalars = false; ///< through the first participant, without exchanges
};

struct Dependent {
    Node node = no_node;
    Cause cause = Cause::order;
};

/// What is fixed about an instruction.
struct NodeFacts {
    program::QueueKind kind = program::QueueKind::compute;
    std::int32_t missing = 0;    ///< what must happen before it can start
    std::int32_t meeting = -1;   ///< index of its message or collective
    Node next_receive = no_node; ///< in its queue
    Node previous_receive = no_node;
};

class EventGraph {
  public:
    EventGraph(program::ProgramSet const& set, program::Network const& network);

    Node size() const { return base_.back(); }
    /// First node of a rank; of the rank count, the end.
    Node begin_of(std::size_t rank) const { return base_[rank]; }
    NodeFacts const& facts(Node node) const { return facts_[static_cast<std::size_t>(node)]; }
    /// Instructions that wait for the end of this one.
    std::span<Dependent const> after_end(Node node) const;
    std::vector<MessageEnds> const& messages() const { return messages_; }
    std::vector<CollectiveEnds> const& collectives() const { return collectives_; }

    Place place(Node node) const;
    program::Instruction const& instruction(Node node) const;
    Path path(Node src, Node dst, std::int64_t bytes) const;

  private:
    Node node_of(Place place) const { return base_[place.rank.index()] + place.instruction.value; }
    NodeFacts& own_facts(Node node) { return facts_[static_cast<std::size_t>(node)]; }
    void connect_queues();
    void connect_partners();
    void plan_exchanges(CollectiveEnds& collective, std::vector<Place> const& places) const;

    program::ProgramSet const& set_;
    program::Network const& network_;
    std::vector<Node> base_;
    std::vector<NodeFacts> facts_;
    std::vector<Dependent> dependents_;
    std::vector<std::int32_t> begins_; ///< of each node's dependents, and the end
    std::vector<MessageEnds> messages_;
    std::vector<CollectiveEnds> collectives_;
};

} // namespace evener::schedule
