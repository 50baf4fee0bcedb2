// SPDX-License-Identifier: Apache-2.0
#pragma once

// The order in which the compute thread issues what it runs or enqueues. Instructions of the compute
// stream go in list order, each when what it waits for is published. Those of every other stream go
// in their own order, each as soon as what it waits for is published: whenever the thread passes by,
// also while it waits for something else. So none of them holds up a computation behind it in the
// list, and what a message waits for is issued even while the thread waits for another message.
//
// Published means enqueued: that the device has done it is for the streams to wait for. A collective of
// a group of devices may need other members before all of it is on its stream; its stream then waits,
// and the thread goes on with the others.

#include "comm/transport.hpp"
#include "runtime/executable.hpp"

#include <array>
#include <functional>

namespace evener::runtime {

/// How the instruction at a place of the list is issued.
struct IssueSteps {
    std::function<void(std::size_t)> begin; ///< runs or enqueues it
    /// Whether all of it is done or enqueued; asked until it is. Wakes nobody: who makes it true
    /// calls Board::nudge.
    std::function<bool(std::size_t)> whole;
    std::function<void(std::size_t)> end;   ///< publishes it
    std::function<void(std::size_t)> waits; ///< the thread has to wait for it; may be empty
};

class Issuer {
  public:
    Issuer(std::vector<IssuedInstruction> const& list, comm::Transport& transport,
           comm::Board const& board, IssueSteps steps);

    /// Issues all; what the steps and the board throw.
    void run();

  private:
    struct Stream {
        std::vector<std::size_t> places; ///< in the list
        std::size_t next = 0;
        bool begun = false; ///< the next one, which is not whole yet
    };

    bool done(std::size_t place) const { return board_.done(list_[place].after); }
    /// Whether its next one may begin, or has and may end.
    bool may_go_on(Stream const& stream) const;
    bool any_may_go_on() const;
    void go_on(Stream& stream);
    /// All that may go on streams other than compute.
    void issue_beside();
    void issue_compute(std::size_t place);

    std::vector<IssuedInstruction> const& list_;
    comm::Transport& transport_;
    comm::Board const& board_;
    IssueSteps steps_;
    std::vector<std::size_t> compute_;
    std::array<Stream, static_cast<std::size_t>(kernels::StreamKind::count)> beside_;
};

} // namespace evener::runtime
