// SPDX-License-Identifier: Apache-2.0

// Scalars: records of any length to rank 0 and one back. Each record is two messages, its length
// and its bytes, which keep their order by having one tag.

#include "comm/exchange.hpp"

#include <algorithm>
#include <utility>

namespace evener::comm {

namespace {

constexpr int contribution_tag = 0;
constexpr int result_tag = 1;

} // namespace

RecordReceive::RecordReceive(Requests& requests, Endpoint const& from)
    : requests_{&requests}, from_{from}, length_{std::make_unique<std::int64_t>(0)},
      slot_{requests.receive(reinterpret_cast<std::byte*>(length_.get()), sizeof(std::int64_t),
                             from)} {}

bool RecordReceive::advance() {
    if (ended_ || !requests_->take(slot_))
        return false;
    if (length_came_) {
        ended_ = true;
        return true;
    }
    length_came_ = true;
    bytes_.resize(static_cast<std::size_t>(*length_));
    slot_ = requests_->receive(bytes_.data(), *length_, from_);
    return true;
}

ScalarsRun::ScalarsRun(ExchangeContext const& context, ScalarsTask const& task)
    : context_{&context}, task_{&task}, own_{task.contribute()},
      own_length_{std::make_unique<std::int64_t>(0)} {
    if (context.rank == 0) {
        for (int peer = 1; peer < context.size; ++peer)
            receives_.emplace_back(context.requests,
                                   Endpoint{context.scalars, peer, contribution_tag});
        return;
    }
    receives_.emplace_back(context.requests, Endpoint{context.scalars, 0, result_tag});
    send_record(0, contribution_tag);
}

void ScalarsRun::send_record(int peer, int tag) {
    Endpoint const to{context_->scalars, peer, tag};
    *own_length_ = static_cast<std::int64_t>(own_.size());
    sends_.push_back(context_->requests.send(reinterpret_cast<std::byte const*>(own_length_.get()),
                                             sizeof(std::int64_t), to));
    sends_.push_back(context_->requests.send(own_.data(), *own_length_, to));
}

bool ScalarsRun::sends_ended() {
    std::erase_if(sends_, [this](Requests::Slot slot) { return context_->requests.take(slot); });
    return sends_.empty();
}

bool ScalarsRun::receives_ended() const {
    return std::all_of(receives_.begin(), receives_.end(), [](auto const& r) { return r.ended(); });
}

void ScalarsRun::combine() {
    std::vector<std::vector<std::byte>> records;
    records.push_back(std::move(own_));
    for (RecordReceive& receive : receives_)
        records.push_back(std::move(receive.bytes()));
    own_ = task_->combine(records);
    for (int peer = 1; peer < context_->size; ++peer)
        send_record(peer, result_tag);
    combined_ = true;
}

bool ScalarsRun::advance() {
    bool moved = false;
    for (RecordReceive& receive : receives_)
        moved |= receive.advance();
    if (!receives_ended())
        return moved;
    if (context_->rank == 0 && !combined_) {
        combine();
        moved = true;
    }
    if (!sends_ended() || ended_)
        return moved;
    task_->receive(context_->rank == 0 ? own_ : receives_.front().bytes());
    ended_ = true;
    return true;
}

} // namespace evener::comm
