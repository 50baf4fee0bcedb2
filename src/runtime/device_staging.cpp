// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_staging.hpp"

#include <algorithm>
#include <functional>

namespace evener::runtime {

namespace {

/// A part of the arena that a task reads (outward) or writes (inward).
struct Touch {
    std::byte* begin = nullptr;
    std::int64_t bytes = 0;
    bool outward = false;
};

core::Range shard_of(std::vector<comm::OwnedPart> const& parts, core::RankId rank) {
    for (comm::OwnedPart const& part : parts)
        if (part.owner == rank)
            return part.elements;
    return {};
}

std::byte* bytes_at(void const* address) {
    return static_cast<std::byte*>(const_cast<void*>(address));
}

struct ListTouches {
    core::RankId rank;

    std::vector<Touch> operator()(comm::SendTask const& work) const {
        return {{bytes_at(work.data), work.bytes, true}};
    }
    std::vector<Touch> operator()(comm::ReceiveTask const& work) const {
        return {{work.data, work.bytes, false}};
    }
    std::vector<Touch> operator()(comm::ReduceTask const& work) const {
        std::int64_t elements = 0;
        for (comm::OwnedPart const& part : work.shards)
            elements = std::max(elements, part.elements.end);
        std::vector<Touch> touches;
        if (work.gradient != nullptr)
            touches.push_back({bytes_at(work.gradient), 4 * elements, true});
        if (work.reduced != nullptr)
            touches.push_back(
                {bytes_at(work.reduced), 4 * shard_of(work.shards, rank).size(), false});
        return touches;
    }
    std::vector<Touch> operator()(comm::GatherTask const& work) const {
        std::vector<Touch> touches;
        touches.reserve(3); // g++ 12 warns of growing in place
        core::Range const shard = shard_of(work.shards, rank);
        if (work.master != nullptr)
            touches.push_back({bytes_at(work.master), 4 * shard.size(), true});
        auto const holder =
            std::find_if(work.holders.begin(), work.holders.end(),
                         [&](comm::Holder const& other) { return other.rank == rank; });
        if (work.weights == nullptr)
            return touches;
        core::DType type = core::DType::float32;
        for (comm::OwnedPart const& part : work.shards)
            if (part.owner == rank)
                type = part.type;
        if (holder != work.holders.end())
            type = holder->type;
        std::int64_t const bytes = core::bytes_of(type);
        core::Range const own{std::max(shard.begin, work.weights_range.begin),
                              std::min(shard.end, work.weights_range.end)};
        if (own.begin < own.end)
            touches.push_back({work.weights + (own.begin - work.weights_range.begin) * bytes,
                               own.size() * bytes, true});
        if (holder != work.holders.end())
            touches.push_back({work.weights, work.weights_range.size() * bytes, false});
        return touches;
    }
    std::vector<Touch> operator()(comm::ScalarsTask const&) const { return {}; }
};

std::vector<Touch> touches_of(comm::Task const& task, core::RankId rank) {
    std::vector<Touch> touches = std::visit(ListTouches{rank}, task.work);
    std::erase_if(touches, [](Touch const& touch) { return touch.bytes == 0; });
    return touches;
}

} // namespace

StagingLayout::StagingLayout(std::span<program::ProgramSet const* const> sets, core::RankId rank,
                             DeviceExchange const& exchange)
    : direct_messages_{exchange.messages} {
    for (program::ProgramSet const* const set : sets)
        add(*set, rank, exchange);
    merge();
}

void StagingLayout::add(program::ProgramSet const& set, core::RankId rank,
                        DeviceExchange const& exchange) {
    program::Program const& program = set.programs[rank.index()];
    for (program::Instruction const& instruction : program.instructions) {
        program::QueueKind const queue = program.queues[instruction.queue.index()].kind;
        bool const message =
            queue == program::QueueKind::send || queue == program::QueueKind::receive;
        if (!message && queue != program::QueueKind::collective)
            continue;
        if ((message && exchange.messages) || exchange.runs(set, program, instruction))
            continue;
        for (program::Use const& use : instruction.uses) {
            program::Buffer const& buffer = program.buffers[use.buffer.index()];
            if (buffer.memory != program::Memory::device)
                continue;
            std::int64_t bytes = buffer.bytes;
            if (buffer.kind == program::BufferKind::shards) // a gather reads no moments
                bytes = 4 * set.buckets[buffer.bucket.index()].shard_of(rank).size();
            if (bytes > 0)
                pieces_.push_back({buffer.offset, buffer.offset + bytes, 0});
        }
    }
}

bool StagingLayout::holds(comm::Task const& task) const {
    return !direct_messages_ || (!std::holds_alternative<comm::SendTask>(task.work) &&
                                 !std::holds_alternative<comm::ReceiveTask>(task.work));
}

void StagingLayout::merge() {
    std::sort(pieces_.begin(), pieces_.end(),
              [](Piece const& a, Piece const& b) { return a.begin < b.begin; });
    std::vector<Piece> merged;
    for (Piece const& piece : pieces_)
        if (!merged.empty() && piece.begin <= merged.back().end)
            merged.back().end = std::max(merged.back().end, piece.end);
        else
            merged.push_back(piece);
    for (Piece& piece : merged) {
        piece.place = bytes_;
        bytes_ = core::round_up(bytes_ + (piece.end - piece.begin), 64);
    }
    pieces_ = std::move(merged);
}

std::int64_t StagingLayout::place_of(std::int64_t offset) const {
    auto const behind =
        std::upper_bound(pieces_.begin(), pieces_.end(), offset,
                         [](std::int64_t a, Piece const& piece) { return a < piece.begin; });
    EVENER_EXPECT(behind != pieces_.begin());
    Piece const& piece = *std::prev(behind);
    EVENER_EXPECT(offset <= piece.end);
    return piece.place + (offset - piece.begin);
}

DeviceStaging::DeviceStaging(StagingLayout const& layout, core::RankId rank,
                             std::span<std::byte> arena, std::byte* staging)
    : layout_{layout}, rank_{rank}, arena_{arena}, staging_{staging} {}

bool DeviceStaging::in_arena(void const* address) const {
    std::less<> const less;
    void const* const begin = arena_.data();
    void const* const end = arena_.data() + arena_.size();
    return !less(address, begin) && less(address, end);
}

std::byte* DeviceStaging::of(void const* address) const {
    if (!in_arena(address))
        return bytes_at(address);
    return staging_ + layout_.place_of(bytes_at(address) - arena_.data());
}

void DeviceStaging::rewrite(std::vector<comm::TransportQueue>& queues) const {
    for (comm::TransportQueue& queue : queues)
        for (comm::Task& task : queue.tasks)
            rewrite(task);
}

void DeviceStaging::rewrite(comm::Task& task) const {
    if (!layout_.holds(task))
        return;
    for (Touch const& touch : touches_of(task, rank_)) {
        if (!in_arena(touch.begin))
            continue;
        if (touch.outward)
            task.outward.push_back({of(touch.begin), touch.begin, touch.bytes});
        else
            task.inward.push_back({touch.begin, of(touch.begin), touch.bytes});
    }
    auto const move = [&](auto*& address) {
        if (address != nullptr)
            address = reinterpret_cast<std::remove_reference_t<decltype(address)>>(of(address));
    };
    // Addresses of parts without bytes are not used and need no place.
    std::visit(
        [&](auto& work) {
            using Work = std::decay_t<decltype(work)>;
            if constexpr (std::is_same_v<Work, comm::SendTask> ||
                          std::is_same_v<Work, comm::ReceiveTask>) {
                if (work.bytes > 0)
                    move(work.data);
            } else if constexpr (std::is_same_v<Work, comm::ReduceTask>) {
                move(work.gradient);
                if (!shard_of(work.shards, rank_).empty())
                    move(work.reduced);
            } else if constexpr (std::is_same_v<Work, comm::GatherTask>) {
                if (!work.weights_range.empty())
                    move(work.weights);
                if (!shard_of(work.shards, rank_).empty())
                    move(work.master);
            }
        },
        task.work);
}

} // namespace evener::runtime
