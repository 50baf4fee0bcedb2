// SPDX-License-Identifier: Apache-2.0
#pragma once

// The order in which the compute thread issues what it runs or enqueues. Instructions of the compute
// stream go in list order, each when what it waits for is published. Those of every other stream go
// in their own order, each as soon as what it waits for is published: whenever the thread passes by,
// also while it waits for something else. So none of them holds up a computation behind it in the
// list, and what a message waits for is issued even while the thread waits for another message.
//
// Published means enqueued: that the device has done it is for the streams to wait for.

#include "comm/transport.hpp"
#include "runtime/executable.hpp"

#include <array>
#include <functional>

namespace evener::runtime {

class Issuer {
  public:
    /// `issue` runs or enqueues the instruction at a place of the list and publishes it.
    Issuer(std::vector<IssuedInstruction> const& list, comm::Transport& transport,
           comm::Board const& board, std::function<void(std::size_t)> issue);

    /// Issues all; what `issue` and the board throw.
    void run();

  private:
    struct Stream {
        std::vector<std::size_t> places; ///< in the list
        std::size_t next = 0;
    };

    bool done(std::size_t place) const { return board_.done(list_[place].after); }
    bool may_issue(Stream const& stream) const {
        return stream.next < stream.places.size() && done(stream.places[stream.next]);
    }
    bool any_may_issue() const;
    /// All that may go on streams other than compute.
    void issue_beside();
    void issue_compute(std::size_t place);

    std::vector<IssuedInstruction> const& list_;
    comm::Transport& transport_;
    comm::Board const& board_;
    std::function<void(std::size_t)> issue_;
    std::vector<std::size_t> compute_;
    std::array<Stream, static_cast<std::size_t>(kernels::StreamKind::count)> beside_;
};

} // namespace evener::runtime
