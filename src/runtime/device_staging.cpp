// SPDX-License-Identifier: Apache-2.0
#include "runtime/device_staging.hpp"

#include <algorithm>

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

DeviceStaging::DeviceStaging(device::Device const& device, core::RankId rank,
                             std::span<std::vector<comm::TransportQueue>* const> lists) {
    for (auto const* const list : lists)
        for (comm::TransportQueue const& queue : *list)
            for (comm::Task const& task : queue.tasks)
                for (Touch const& touch : touches_of(task, rank))
                    pieces_.push_back({touch.begin, touch.begin + touch.bytes, 0});
    std::sort(pieces_.begin(), pieces_.end(),
              [](Piece const& a, Piece const& b) { return a.begin < b.begin; });
    std::vector<Piece> merged;
    for (Piece const& piece : pieces_)
        if (!merged.empty() && piece.begin <= merged.back().end)
            merged.back().end = std::max(merged.back().end, piece.end);
        else
            merged.push_back(piece);
    std::int64_t bytes = 0;
    for (Piece& piece : merged) {
        piece.offset = bytes;
        bytes = core::round_up(bytes + (piece.end - piece.begin), 64);
    }
    pieces_ = std::move(merged);
    memory_ = device::Allocation::shared(device, bytes);
    for (auto* const list : lists)
        for (comm::TransportQueue& queue : *list)
            for (comm::Task& task : queue.tasks)
                rewrite(task, rank);
}

std::byte* DeviceStaging::of(void const* address) const {
    auto const* const byte = static_cast<std::byte const*>(address);
    auto const behind =
        std::upper_bound(pieces_.begin(), pieces_.end(), byte,
                         [](std::byte const* a, Piece const& piece) { return a < piece.begin; });
    EVENER_EXPECT(behind != pieces_.begin());
    Piece const& piece = *std::prev(behind);
    EVENER_EXPECT(byte <= piece.end);
    return memory_.data() + piece.offset + (byte - piece.begin);
}

void DeviceStaging::rewrite(comm::Task& task, core::RankId rank) const {
    for (Touch const& touch : touches_of(task, rank))
        if (touch.outward)
            task.outward.push_back({of(touch.begin), touch.begin, touch.bytes});
        else
            task.inward.push_back({touch.begin, of(touch.begin), touch.bytes});
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
                if (!shard_of(work.shards, rank).empty())
                    move(work.reduced);
            } else if constexpr (std::is_same_v<Work, comm::GatherTask>) {
                if (!work.weights_range.empty())
                    move(work.weights);
                if (!shard_of(work.shards, rank).empty())
                    move(work.master);
            }
        },
        task.work);
}

} // namespace evener::runtime
