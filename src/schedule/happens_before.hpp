// SPDX-License-Identifier: Apache-2.0
#pragma once

// The happens-before relation of a set of programs: what must have ended before something starts,
// whatever the streams and links do. Every instruction is two events, start and end, joined by the
// rules of program/program.hpp and nothing else; the order of the lists means nothing beyond
// queues.
//
// Example: rank 0 sends x to rank 1 and later receives y, which rank 1 sends after it received x.
// Then rank 0's send ends before whatever waits for the receive of y starts: the path leads through
// rank 1.

#include "program/program.hpp"

#include <cstdint>
#include <utility>
#include <vector>

namespace evener::schedule {

/// An instruction of some rank.
struct Place {
    core::RankId rank;
    core::InstructionId instruction;

    friend auto operator<=>(Place const&, Place const&) = default;
};

/// Which instructions of different ranks wait for each other. Messages meet by (direction, chunk,
/// microbatch, source, destination), collectives by kind and bucket; where one key occurs several
/// times, the k-th of each rank meet.
struct Meetings {
    std::vector<std::pair<Place, Place>> messages; ///< send and receive
    std::vector<Place> unmatched;                  ///< sends and receives without the other half
    std::vector<std::vector<Place>> collectives;   ///< participants, ascending ranks
};

Meetings find_meetings(program::ProgramSet const& set);

class HappensBefore {
  public:
    /// Queue and `after` ids must be in range. O(ranks x events x queues of a rank).
    HappensBefore(program::ProgramSet const& set, Meetings const& meetings);

    /// Instructions that wait for each other in a ring, each for the next; empty when every
    /// instruction can end. With a cycle the queries below must not be used.
    std::vector<Place> const& cycle() const { return cycle_; }

    /// Whether `a` has ended in every run before `b` starts; both of the same rank.
    bool ends_before_start(core::RankId rank, core::InstructionId a, core::InstructionId b) const;

    /// A number that grows along the relation: one order in which a run may start instructions.
    std::uint32_t possible_order(Place place) const {
        return ranks_[place.rank.index()].order[place.instruction.index()];
    }

  private:
    struct Graph;

    void number_queues(program::ProgramSet const& set);
    void find_cycle(program::ProgramSet const& set, Graph const& graph,
                    std::vector<std::uint32_t> const& waiting);
    void propagate(program::ProgramSet const& set, Graph const& graph);

    struct RankClocks {
        std::size_t queue_count = 0;
        std::vector<std::uint32_t> queue;    ///< by instruction
        std::vector<std::uint32_t> position; ///< in its queue, by instruction
        /// [instruction][queue]: how many instructions of the queue have ended before it starts
        std::vector<std::uint32_t> ended;
        std::vector<std::uint32_t> order; ///< of each start among all events
    };
    std::vector<RankClocks> ranks_;
    std::vector<Place> cycle_;
};

} // namespace evener::schedule
