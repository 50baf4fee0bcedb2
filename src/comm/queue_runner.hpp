// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs one queue of a pass: starts its tasks when the queue's kind and the board allow, advances
// those that run, publishes them in order.

#include "comm/board.hpp"
#include "comm/device_copies.hpp"
#include "comm/exchange.hpp"
#include "comm/staged_message.hpp"
#include "comm/transport.hpp"

#include <chrono>
#include <deque>
#include <optional>
#include <random>
#include <variant>

namespace evener::comm {

/// Random waits, or none.
class Delays {
  public:
    explicit Delays(std::optional<RandomDelays> const& delays, int rank);
    /// When something that could happen now may happen.
    std::chrono::steady_clock::time_point from_now();
    bool enabled() const noexcept { return max_microseconds_ > 0; }

  private:
    std::mt19937_64 random_;
    std::int64_t max_microseconds_ = 0;
};

class QueueRunner {
  public:
    /// `staging` may be null where no reduction or gather is in the queue, `copies` where the device
    /// computes in the process's own memory.
    QueueRunner(ExchangeContext const& context, Delays& delays, Staging const* staging,
                DeviceCopies* copies, TransportQueue const& queue, Board& board);

    /// Whether anything moved. Throws core::CommError that names the instruction.
    bool advance();
    bool ended() const { return next_ == queue_->tasks.size() && active_.empty(); }
    /// A random wait or a copy runs, so that something may happen without a message or a
    /// publication.
    bool delayed() const;

  private:
    using Clock = std::chrono::steady_clock;
    using Run =
        std::variant<MessageRun, StagedSend, StagedReceive, ReduceRun, GatherRun, ScalarsRun>;
    struct Active {
        Task const* task;
        std::optional<Run> run;                      ///< none: copies run first
        std::optional<Clock::time_point> publish_at; ///< set when it has ended
    };

    bool start_next();
    bool advance_copies(Active& active);
    bool copies_run() const;
    bool advance_active();
    bool publish_front();
    Run make_run(Task const& task) const;
    static bool moves_blocks(Task const& task);
    Run run_of_blocks(Task const& task) const;
    Run run_of(SendTask const& work) const;
    Run run_of(ReceiveTask const& work) const;
    Run run_of(ReduceTask const& work) const;
    Run run_of(GatherTask const& work) const;
    Run run_of(ScalarsTask const& work) const;

    ExchangeContext const* context_;
    Delays* delays_;
    Staging const* staging_;
    DeviceCopies* copies_;
    TransportQueue const* queue_;
    Board* board_;
    std::size_t next_ = 0;
    bool device_awaited_ = false;               ///< by the next task, which may start otherwise
    std::optional<Clock::time_point> start_at_; ///< of the next task, when it may start
    std::deque<Active> active_;                 ///< in order
};

} // namespace evener::comm
