// SPDX-License-Identifier: Apache-2.0
#include "schedule/rank_lowering.hpp"

#include <algorithm>
#include <limits>

namespace evener::schedule {

using program::Buffer;
using program::BufferKind;

namespace {

/// Instructions [first, last] of the list that use the buffer. All users of one that shares memory
/// are on the compute queue, so the list order of these is their order of execution.
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

std::int64_t place_by_lifetime(program::Program& program, std::vector<Lifetime> lifetimes,
                               std::int64_t base) {
    std::stable_sort(lifetimes.begin(), lifetimes.end(),
                     [](Lifetime const& a, Lifetime const& b) { return a.first < b.first; });
    std::int64_t extent = 0;
    std::vector<std::pair<Lifetime, Placed>> placed;
    for (Lifetime const& lifetime : lifetimes) {
        std::erase_if(placed, [&](auto const& other) { return other.first.last < lifetime.first; });
        std::vector<Placed> alive;
        for (auto const& other : placed)
            alive.push_back(other.second);
        Buffer& buffer = program.buffers[lifetime.buffer];
        std::int64_t const bytes = core::round_up(buffer.bytes, 64);
        std::int64_t const begin = find_place(std::move(alive), bytes);
        placed.push_back({lifetime, {begin, begin + bytes}});
        buffer.offset = base + begin;
        extent = std::max(extent, begin + bytes);
    }
    return extent;
}

bool shares_memory(BufferKind kind) {
    return kind == BufferKind::kept || kind == BufferKind::kept_for_weights ||
           kind == BufferKind::handover;
}

} // namespace

void assign_offsets(program::Program& program) {
    std::vector<Lifetime> lifetimes(program.buffers.size());
    for (std::size_t b = 0; b < lifetimes.size(); ++b)
        lifetimes[b].buffer = b;
    for (std::size_t i = 0; i < program.instructions.size(); ++i)
        for (program::Use const& use : program.instructions[i].uses) {
            Lifetime& lifetime = lifetimes[use.buffer.index()];
            lifetime.first = std::min(lifetime.first, i);
            lifetime.last = std::max(lifetime.last, i);
        }
    // Persistent kinds first: they lie at the same place in every program of the rank.
    static constexpr BufferKind order[] = {
        BufferKind::weights,   BufferKind::shards,  BufferKind::gradients,
        BufferKind::reduced,   BufferKind::kept,    BufferKind::kept_for_weights,
        BufferKind::received,  BufferKind::sending, BufferKind::handover,
        BufferKind::workspace, BufferKind::inputs,  BufferKind::updated};
    static_assert(std::size(order) == program::buffer_kind_count);
    std::int64_t base = 0;
    for (BufferKind const kind : order) {
        std::vector<Lifetime> sharing;
        for (std::size_t b = 0; b < program.buffers.size(); ++b) {
            Buffer& buffer = program.buffers[b];
            if (buffer.kind != kind)
                continue;
            if (shares_memory(kind)) {
                sharing.push_back(lifetimes[b]);
            } else {
                buffer.offset = base;
                base += core::round_up(buffer.bytes, 64);
            }
        }
        base += place_by_lifetime(program, std::move(sharing), base);
    }
    program.arena_bytes = base;
}

} // namespace evener::schedule
