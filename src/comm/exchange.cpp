// SPDX-License-Identifier: Apache-2.0
#include "comm/exchange.hpp"

#include <algorithm>
#include <cstring>

namespace evener::comm {

namespace {

template <class Post>
std::vector<Requests::Slot> cut(std::int64_t bytes, std::int64_t block_bytes, Post&& post) {
    std::vector<Requests::Slot> parts;
    std::int64_t begin = 0;
    do { // a message without bytes is a message too
        std::int64_t const size = std::min(block_bytes, bytes - begin);
        parts.push_back(post(begin, size));
        begin += size;
    } while (begin < bytes);
    return parts;
}

void add(float* dst, float const* src, std::int64_t elements) {
    for (std::int64_t i = 0; i < elements; ++i)
        dst[i] += src[i];
}

/// Ends what has ended in front of `senders`; whether anything moved.
bool advance_all(std::vector<BlockSender>& senders) {
    bool moved = false;
    for (BlockSender& sender : senders)
        moved |= sender.advance();
    return moved;
}

bool all_ended(std::vector<BlockSender> const& senders) {
    return std::all_of(senders.begin(), senders.end(), [](auto const& s) { return s.ended(); });
}

core::Range shard_of(std::vector<OwnedPart> const& shards, int rank) {
    for (OwnedPart const& part : shards)
        if (part.owner.value == rank)
            return part.elements;
    return {};
}

} // namespace

Endpoint endpoint(ExchangeContext const& context, Direction direction, core::RankId peer,
                  std::int64_t tag) {
    return {context.directions[static_cast<int>(direction)], peer.value, static_cast<int>(tag)};
}

Staging::Staging(std::int64_t bytes)
    : block_bytes{bytes}, memory{std::make_unique<std::byte[]>(blocks_in_flight *
                                                               static_cast<std::size_t>(bytes))} {}

MessageRun::MessageRun(ExchangeContext const& context, SendTask const& task)
    : requests_{&context.requests} {
    parts_ = cut(task.bytes, context.message_block_bytes, [&](auto begin, auto size) {
        return requests_->send(task.data + begin, size,
                               endpoint(context, task.direction, task.peer, task.tag));
    });
}

MessageRun::MessageRun(ExchangeContext const& context, ReceiveTask const& task)
    : MessageRun{context, endpoint(context, task.direction, task.peer, task.tag), task.data,
                 task.bytes} {}

MessageRun::MessageRun(ExchangeContext const& context, Endpoint const& from, std::byte* data,
                       std::int64_t bytes)
    : requests_{&context.requests} {
    parts_ = cut(bytes, context.message_block_bytes, [&](auto begin, auto size) {
        return requests_->receive(data + begin, size, from);
    });
}

bool MessageRun::advance() {
    std::size_t const before = next_;
    while (next_ < parts_.size() && requests_->take(parts_[next_]))
        ++next_;
    return next_ != before;
}

bool BlockSender::advance() {
    bool moved = false;
    while (!in_flight_.empty() && requests_->take(in_flight_.front())) {
        in_flight_.erase(in_flight_.begin());
        moved = true;
    }
    while (sent_ < bytes_ && in_flight_.size() < blocks_in_flight) {
        std::int64_t const size = std::min(block_bytes_, bytes_ - sent_);
        in_flight_.push_back(requests_->send(data_ + sent_, size, to_));
        sent_ += size;
        moved = true;
    }
    return moved;
}

bool BlockReceiver::post() {
    bool moved = false;
    for (; posted_ < blocks_.size() && posted_ < used_ + blocks_in_flight; ++posted_) {
        Block const& block = blocks_[posted_];
        std::size_t const place = posted_ % blocks_in_flight;
        slots_[place] = context_->requests.receive(staging_->block(place), block.bytes,
                                                   {context_->blocks, block.peer, tag_});
        moved = true;
    }
    return moved;
}

std::byte const* BlockReceiver::front() {
    if (used_ == posted_)
        return nullptr;
    std::size_t const place = used_ % blocks_in_flight;
    if (!front_came_)
        front_came_ = context_->requests.take(slots_[place]);
    return front_came_ ? staging_->block(place) : nullptr;
}

void BlockReceiver::pop() {
    ++used_;
    front_came_ = false;
}

ReduceRun::ReduceRun(ExchangeContext const& context, Staging const& staging, ReduceTask const& task)
    : context_{&context}, task_{&task}, shard_{shard_of(task.shards, context.rank)},
      receiver_{context, staging, static_cast<int>(task.tag)} {
    if (task.gradient != nullptr)
        for (OwnedPart const& part : task.shards)
            if (part.owner.value != context.rank && !part.elements.empty())
                senders_.emplace_back(
                    context.requests,
                    Endpoint{context.blocks, part.owner.value, static_cast<int>(task.tag)},
                    reinterpret_cast<std::byte const*>(task.gradient + part.elements.begin),
                    part.elements.size() * 4, context.exchange_block_bytes);
    std::int64_t const block = context.exchange_block_bytes / 4;
    for (std::int64_t begin = 0; begin < shard_.size(); begin += block)
        for (core::RankId const from : task.contributors)
            if (from.value != context.rank)
                receiver_.expect({from.value, std::min(block, shard_.size() - begin) * 4});
    if (task.contributors.empty() && !shard_.empty())
        std::fill_n(task.reduced, shard_.size(), 0.0f);
}

bool ReduceRun::add_next() {
    if (task_->contributors.empty() || block_begin_ >= shard_.size())
        return false;
    std::int64_t const size =
        std::min(context_->exchange_block_bytes / 4, shard_.size() - block_begin_);
    bool const own = task_->contributors[contributor_].value == context_->rank;
    auto const* const src = own ? task_->gradient + shard_.begin + block_begin_
                                : reinterpret_cast<float const*>(receiver_.front());
    if (src == nullptr)
        return false;
    float* const dst = task_->reduced + block_begin_;
    if (contributor_ == 0)
        std::memcpy(dst, src, static_cast<std::size_t>(size) * 4);
    else
        add(dst, src, size);
    if (!own)
        receiver_.pop();
    if (++contributor_ == task_->contributors.size()) {
        contributor_ = 0;
        block_begin_ += size;
    }
    return true;
}

bool ReduceRun::advance() {
    bool moved = advance_all(senders_);
    moved |= receiver_.post();
    // One block at a time, so that other queues wait a millisecond at most.
    moved |= add_next();
    return moved;
}

bool ReduceRun::ended() const {
    bool const added = task_->contributors.empty() || block_begin_ >= shard_.size();
    return added && all_ended(senders_);
}

GatherRun::GatherRun(ExchangeContext const& context, Staging const& staging, GatherTask const& task)
    : context_{&context}, task_{&task}, receiver_{context, staging, static_cast<int>(task.tag)} {
    for (Holder const& holder : task.holders)
        if (holder.rank.value == context.rank) {
            own_type_ = holder.type;
            receive_shards(holder.type);
        }
    for (OwnedPart const& part : task.shards)
        if (part.owner.value == context.rank && !part.elements.empty())
            send_shard(part, part.type);
}

void GatherRun::send_shard(OwnedPart const& part, core::DType own_type) {
    std::int64_t const offset =
        (part.elements.begin - task_->weights_range.begin) * core::bytes_of(own_type);
    for (Holder const& holder : task_->holders) {
        if (holder.rank.value == context_->rank)
            continue;
        Endpoint const to{context_->blocks, holder.rank.value, static_cast<int>(task_->tag)};
        if (holder.type == own_type)
            senders_.emplace_back(context_->requests, to, task_->weights + offset,
                                  part.elements.size() * core::bytes_of(own_type),
                                  context_->message_block_bytes);
        else
            senders_.emplace_back(context_->requests, to,
                                  reinterpret_cast<std::byte const*>(task_->master),
                                  part.elements.size() * 4, context_->exchange_block_bytes);
    }
}

void GatherRun::receive_shards(core::DType own_type) {
    std::int64_t const width = core::bytes_of(own_type);
    for (OwnedPart const& part : task_->shards) {
        if (part.owner.value == context_->rank || part.elements.empty())
            continue;
        std::byte* const dst =
            task_->weights + (part.elements.begin - task_->weights_range.begin) * width;
        if (part.type == own_type) {
            messages_.emplace_back(
                *context_,
                Endpoint{context_->blocks, part.owner.value, static_cast<int>(task_->tag)}, dst,
                part.elements.size() * width);
            continue;
        }
        std::int64_t const block = context_->exchange_block_bytes / 4;
        for (std::int64_t begin = 0; begin < part.elements.size(); begin += block) {
            std::int64_t const size = std::min(block, part.elements.size() - begin);
            receiver_.expect({part.owner.value, size * 4});
            targets_.push_back({dst + begin * width, size});
        }
    }
}

bool GatherRun::convert_next() {
    auto const* const src = reinterpret_cast<float const*>(receiver_.front());
    if (src == nullptr)
        return false;
    auto const [dst, elements] = targets_[converted_];
    if (own_type_ == core::DType::float32)
        std::memcpy(dst, src, static_cast<std::size_t>(elements) * 4);
    else
        std::transform(src, src + elements, reinterpret_cast<std::uint16_t*>(dst),
                       core::to_bfloat16);
    receiver_.pop();
    ++converted_;
    return true;
}

bool GatherRun::advance() {
    bool moved = advance_all(senders_);
    for (MessageRun& message : messages_)
        moved |= message.advance();
    moved |= receiver_.post();
    moved |= convert_next();
    return moved;
}

bool GatherRun::ended() const {
    return receiver_.ended() && all_ended(senders_) &&
           std::all_of(messages_.begin(), messages_.end(), [](auto const& m) { return m.ended(); });
}

} // namespace evener::comm
