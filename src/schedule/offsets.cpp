// SPDX-License-Identifier: Apache-2.0
#include "schedule/rank_lowering.hpp"

#include <algorithm>
#include <limits>

namespace evener::schedule {

using core::InstructionId;
using program::Buffer;
using program::BufferKind;
using program::Memory;

namespace {

/// Instructions [first, last] of the list that use the buffer. Waits look back and each of these
/// ends with its last use, so a buffer that comes behind in the list can be made to come behind in
/// time.
struct Lifetime {
    std::size_t buffer = 0;
    std::size_t first = std::numeric_limits<std::size_t>::max();
    std::size_t last = 0;
};

struct Placed {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};

/// Best fit: the smallest gap between buffers alive at the same time; else behind them.
std::int64_t find_place(std::vector<Placed> alive, std::int64_t bytes) {
    std::sort(alive.begin(), alive.end(),
              [](Placed const& a, Placed const& b) { return a.begin < b.begin; });
    std::int64_t best = -1;
    std::int64_t best_gap = std::numeric_limits<std::int64_t>::max();
    std::int64_t end = 0;
    for (Placed const& other : alive) {
        std::int64_t const gap = other.begin - end;
        if (gap >= bytes && gap < best_gap) {
            best = end;
            best_gap = gap;
        }
        end = std::max(end, other.end);
    }
    return best >= 0 ? best : end;
}

/// Buffers of few and different sizes, of parameters: they take turns in slots. Others are many and
/// of a few sizes, and best fit loses nothing.
bool takes_slots(BufferKind kind) {
    return kind == BufferKind::weights || kind == BufferKind::shards ||
           kind == BufferKind::gradients || kind == BufferKind::reduced ||
           kind == BufferKind::updated;
}

bool is_link_buffer(Buffer const& buffer) {
    return buffer.kind == BufferKind::received || buffer.kind == BufferKind::sending;
}

class Places {
  public:
    explicit Places(program::Program& program)
        : program_{program}, lifetimes_(program.buffers.size()) {
        for (std::size_t b = 0; b < lifetimes_.size(); ++b)
            lifetimes_[b].buffer = b;
        for (std::size_t i = 0; i < program.instructions.size(); ++i)
            for (program::Use const& use : program.instructions[i].uses) {
                Lifetime& lifetime = lifetimes_[use.buffer.index()];
                lifetime.first = std::min(lifetime.first, i);
                lifetime.last = std::max(lifetime.last, i);
            }
    }

    /// The size of the region.
    std::int64_t assign(Memory memory) {
        // Persistent buffers first: they lie at the same place in every program of the rank.
        static constexpr BufferKind order[] = {
            BufferKind::weights, BufferKind::shards,   BufferKind::gradients,
            BufferKind::reduced, BufferKind::kept,     BufferKind::kept_for_weights,
            BufferKind::inputs,  BufferKind::updated,  BufferKind::received,
            BufferKind::sending, BufferKind::handover, BufferKind::workspace};
        static_assert(std::size(order) == program::buffer_kind_count);
        std::int64_t base = 0;
        for (bool const persistent : {true, false})
            for (BufferKind const kind : order) {
                std::vector<Lifetime> sharing;
                for (std::size_t b = 0; b < program_.buffers.size(); ++b) {
                    Buffer& buffer = program_.buffers[b];
                    if (buffer.kind != kind || buffer.memory != memory ||
                        buffer.persistent != persistent)
                        continue;
                    if (persistent || is_link_buffer(buffer)) {
                        buffer.offset = base;
                        base += core::round_up(buffer.bytes, 64);
                    } else {
                        sharing.push_back(lifetimes_[b]);
                    }
                }
                std::stable_sort(
                    sharing.begin(), sharing.end(),
                    [](Lifetime const& a, Lifetime const& b) { return a.first < b.first; });
                base += takes_slots(kind) ? place_in_slots(sharing, base)
                                          : place_by_lifetime(sharing, base);
            }
        return base;
    }

  private:
    /// As many slots as there are buffers alive at once, each as large as the largest that it holds.
    std::int64_t place_in_slots(std::vector<Lifetime> const& lifetimes, std::int64_t base) {
        struct Slot {
            std::int64_t bytes = 0;
            std::vector<Lifetime> members;
        };
        std::vector<Slot> slots;
        for (Lifetime const& lifetime : lifetimes) {
            std::int64_t const bytes = core::round_up(program_.buffers[lifetime.buffer].bytes, 64);
            Slot* best = nullptr; // the smallest free one that suffices, else the largest free one
            for (Slot& slot : slots) {
                if (slot.members.back().last >= lifetime.first)
                    continue;
                bool const suffices = slot.bytes >= bytes;
                if (best == nullptr || (suffices ? best->bytes < bytes || slot.bytes < best->bytes
                                                 : slot.bytes > best->bytes && best->bytes < bytes))
                    best = &slot;
            }
            if (best == nullptr)
                best = &slots.emplace_back();
            else
                add_wait(lifetime.first, best->members.back().last);
            best->bytes = std::max(best->bytes, bytes);
            best->members.push_back(lifetime);
        }
        std::int64_t extent = 0;
        for (Slot const& slot : slots) {
            for (Lifetime const& member : slot.members)
                program_.buffers[member.buffer].offset = base + extent;
            extent += slot.bytes;
        }
        return extent;
    }

    std::int64_t place_by_lifetime(std::vector<Lifetime> const& lifetimes, std::int64_t base) {
        std::int64_t extent = 0;
        std::vector<std::pair<Lifetime, Placed>> alive;
        std::vector<std::pair<Lifetime, Placed>> ended; // and not yet overwritten
        for (Lifetime const& lifetime : lifetimes) {
            auto const behind =
                std::stable_partition(alive.begin(), alive.end(), [&](auto const& other) {
                    return other.first.last >= lifetime.first;
                });
            ended.insert(ended.end(), behind, alive.end());
            alive.erase(behind, alive.end());
            std::vector<Placed> taken;
            for (auto const& other : alive)
                taken.push_back(other.second);
            Buffer& buffer = program_.buffers[lifetime.buffer];
            std::int64_t const bytes = core::round_up(buffer.bytes, 64);
            std::int64_t const begin = find_place(std::move(taken), bytes);
            Placed const place{begin, begin + bytes};
            take_over(ended, lifetime, place);
            alive.push_back({lifetime, place});
            buffer.offset = base + begin;
            extent = std::max(extent, place.end);
        }
        return extent;
    }

    /// Makes the first use of the new buffer wait for the end of those whose memory it takes.
    void take_over(std::vector<std::pair<Lifetime, Placed>>& ended, Lifetime const& lifetime,
                   Placed const& place) {
        std::erase_if(ended, [&](auto const& other) {
            Placed const& old = other.second;
            if (old.end <= place.begin || place.end <= old.begin)
                return false;
            add_wait(lifetime.first, other.first.last);
            return place.begin <= old.begin && old.end <= place.end;
        });
    }

    void add_wait(std::size_t instruction, std::size_t for_end_of) {
        program::Instruction& own = program_.instructions[instruction];
        if (own.queue == program_.instructions[for_end_of].queue)
            return; // neither is a receive: the queue runs in order
        InstructionId const id{static_cast<std::int64_t>(for_end_of)};
        auto const place = std::lower_bound(own.after.begin(), own.after.end(), id);
        if (place == own.after.end() || *place != id)
            own.after.insert(place, id);
    }

    program::Program& program_;
    std::vector<Lifetime> lifetimes_;
};

} // namespace

void assign_offsets(program::Program& program) {
    Places places{program};
    program.arena_bytes = places.assign(Memory::device);
    program.pinned_bytes = places.assign(Memory::pinned);
}

} // namespace evener::schedule
