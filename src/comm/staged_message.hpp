// SPDX-License-Identifier: Apache-2.0
#pragma once

// A message of a device with a memory of its own, cut into the blocks that MPI sees, so that the
// steps of its way overlap: while block k travels, block k + 1 is copied out, and on the other side
// block k is copied in while block k + 1 is on its way. The staging holds the whole message.

#include "comm/device_copies.hpp"
#include "comm/exchange.hpp"

#include <deque>

namespace evener::comm {

/// Blocks are copied out a few ahead of the one that MPI takes next.
class StagedSend {
  public:
    /// `copy`: from the device to the task's data. Starts the first copies.
    StagedSend(ExchangeContext const& context, DeviceCopies& copies, SendTask const& task,
               DeviceCopy const& copy);

    bool advance();
    bool ended() const { return ended_ == message_.bytes; }
    /// Whether something may happen without a message.
    bool copies_run() const { return !copied_.empty(); }

  private:
    std::int64_t block_at(std::int64_t begin) const {
        return std::min(context_->message_block_bytes, message_.bytes - begin);
    }
    bool copy_ahead();

    ExchangeContext const* context_;
    DeviceCopies* copies_;
    Endpoint to_;
    DeviceCopy message_;
    std::int64_t copying_ = 0;                ///< bytes whose copies are enqueued
    std::int64_t sending_ = 0;                ///< bytes that MPI has got
    std::int64_t ended_ = 0;                  ///< bytes that may be overwritten
    std::deque<DeviceCopies::Ticket> copied_; ///< of the blocks from sending_ to copying_
    std::deque<Requests::Slot> sends_;        ///< of the blocks from ended_ to sending_
};

/// All blocks are posted at once and copied in as they come, which is in order.
class StagedReceive {
  public:
    /// `copy`: from the task's data to the device.
    StagedReceive(ExchangeContext const& context, DeviceCopies& copies, ReceiveTask const& task,
                  DeviceCopy const& copy);

    bool advance();
    bool ended() const { return next_ == parts_.size(); }

  private:
    ExchangeContext const* context_;
    DeviceCopies* copies_;
    DeviceCopy message_;
    std::vector<Requests::Slot> parts_;
    std::size_t next_ = 0; ///< the block that comes next
};

} // namespace evener::comm
