// SPDX-License-Identifier: Apache-2.0
#include "comm/staged_message.hpp"

#include <algorithm>

namespace evener::comm {

namespace {

/// `bytes` from `begin` on.
DeviceCopy part_of(DeviceCopy const& whole, std::int64_t begin, std::int64_t bytes) {
    return {static_cast<std::byte*>(whole.dst) + begin,
            static_cast<std::byte const*>(whole.src) + begin, bytes};
}

} // namespace

StagedSend::StagedSend(ExchangeContext const& context, DeviceCopies& copies, SendTask const& task,
                       DeviceCopy const& copy)
    : context_{&context}, copies_{&copies},
      to_{endpoint(context, task.direction, task.peer, task.tag)}, message_{copy} {
    copy_ahead();
}

bool StagedSend::copy_ahead() {
    bool moved = false;
    while (copying_ < message_.bytes && copied_.size() < blocks_in_flight) {
        std::int64_t const size = block_at(copying_);
        copied_.push_back(copies_->start_block_outward(part_of(message_, copying_, size)));
        copying_ += size;
        moved = true;
    }
    return moved;
}

bool StagedSend::advance() {
    bool moved = false;
    while (!sends_.empty() && context_->requests.take(sends_.front())) {
        sends_.pop_front();
        ended_ += block_at(ended_);
        moved = true;
    }
    while (!copied_.empty() && copies_->take(copied_.front())) {
        copied_.pop_front();
        std::int64_t const size = block_at(sending_);
        DeviceCopy const block = part_of(message_, sending_, size);
        sends_.push_back(
            context_->requests.send(static_cast<std::byte const*>(block.dst), size, to_));
        sending_ += size;
        moved = true;
    }
    return copy_ahead() || moved;
}

StagedReceive::StagedReceive(ExchangeContext const& context, DeviceCopies& copies,
                             ReceiveTask const& task, DeviceCopy const& copy)
    : context_{&context}, copies_{&copies}, message_{copy} {
    Endpoint const from = endpoint(context, task.direction, task.peer, task.tag);
    for (std::int64_t begin = 0; begin < task.bytes; begin += context.message_block_bytes)
        parts_.push_back(context.requests.receive(
            task.data + begin, std::min(context.message_block_bytes, task.bytes - begin), from));
}

bool StagedReceive::advance() {
    bool moved = false;
    while (next_ < parts_.size() && context_->requests.take(parts_[next_])) {
        std::int64_t const begin = static_cast<std::int64_t>(next_) * context_->message_block_bytes;
        copies_->start_block_inward(part_of(
            message_, begin, std::min(context_->message_block_bytes, message_.bytes - begin)));
        ++next_;
        moved = true;
    }
    return moved;
}

} // namespace evener::comm
