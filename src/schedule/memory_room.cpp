// SPDX-License-Identifier: Apache-2.0
#include "schedule/memory_room.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace evener::schedule {

using program::WorkKind;

MemoryRoom::MemoryRoom(WorkGraph const& graph)
    : graph_{&graph}, ranks_(static_cast<std::size_t>(graph.rank_count)) {
    std::int64_t microbatches = 0;
    for (Cell const& cell : graph.cells)
        microbatches = std::max<std::int64_t>(microbatches, cell.microbatch.value + 1);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
        ranks_[r].microbatches.resize(static_cast<std::size_t>(microbatches));
        ranks_[r].limit = with_margin(graph.memory_limits[r]);
    }
    for (Cell const& cell : graph.cells) {
        Microbatch& own = ranks_[cell.rank.index()].microbatches[cell.microbatch.index()];
        own.remaining += cell.kept_bytes;
        ++own.cells;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r)
        for (std::size_t m = 0; m < ranks_[r].microbatches.size(); ++m)
            if (double const needed = ranks_[r].microbatches[m].remaining; needed > ranks_[r].limit)
                throw core::ConfigError{fmt::format(
                    "no schedule fits the memory of rank {} (microbatch {} alone keeps {:g} bytes "
                    "there, the limit is {:g}); use smaller microbatches or fewer layers there",
                    r, m, needed, graph.memory_limits[r])};
    for (Rank& rank : ranks_)
        while (rank.oldest < microbatches &&
               rank.microbatches[static_cast<std::size_t>(rank.oldest)].cells == 0)
            ++rank.oldest;
}

double MemoryRoom::with_margin(double limit) {
    return limit + 1e-9 * std::abs(limit);
}

bool MemoryRoom::is_oldest(std::int32_t index) const {
    return cell(index).microbatch.value == ranks_[cell(index).rank.index()].oldest;
}

bool MemoryRoom::fits_input_half(std::int32_t index) const {
    Rank const& rank = ranks_[cell(index).rank.index()];
    return rank.held + cell(index).kept_for_weights_bytes <= rank.limit;
}

bool MemoryRoom::fits_forward(std::int32_t index, std::int64_t reserved) const {
    Rank const& rank = ranks_[cell(index).rank.index()];
    if (rank.limit == no_memory_limit)
        return true;
    double const bytes = cell(index).kept_bytes;
    std::int64_t const own = cell(index).microbatch.value;
    if (rank.held + bytes > rank.limit)
        return false;

    double older = 0; // the rest of up to `reserved` older microbatches
    for (std::int64_t m = rank.oldest; m < own && reserved > 0; ++m) {
        Microbatch const& microbatch = rank.microbatches[static_cast<std::size_t>(m)];
        older += microbatch.remaining;
        reserved -= microbatch.cells > 0;
    }
    if (older > 0 && rank.held + bytes + older > rank.limit)
        return false;

    // For each microbatch, once all older ones are done: what it and newer ones hold, and its rest.
    double held = 0;
    for (std::int64_t m = std::max(own, rank.newest); m >= rank.oldest; --m) {
        Microbatch const& microbatch = rank.microbatches[static_cast<std::size_t>(m)];
        double const added = m == own ? bytes : 0;
        held += microbatch.held + added;
        if (microbatch.cells > 0 && held + microbatch.remaining - added > rank.limit)
            return false;
    }
    return true;
}

void MemoryRoom::start(std::int32_t index, WorkKind kind) {
    Cell const& started = cell(index);
    Rank& rank = ranks_[started.rank.index()];
    Microbatch& microbatch = rank.microbatches[started.microbatch.index()];
    double added = 0;
    if (kind == WorkKind::forward) {
        added = started.kept_bytes;
        microbatch.remaining -= started.kept_bytes;
        --microbatch.cells;
        rank.newest = std::max<std::int64_t>(rank.newest, started.microbatch.value);
        while (rank.oldest < std::ssize(rank.microbatches) &&
               rank.microbatches[static_cast<std::size_t>(rank.oldest)].cells == 0)
            ++rank.oldest;
    } else if (kind == WorkKind::backward_input) {
        added = started.kept_for_weights_bytes;
    }
    microbatch.held += added;
    rank.held += added;
}

void MemoryRoom::end(std::int32_t index, WorkKind kind) {
    Cell const& ended = cell(index);
    double freed = 0;
    if (kind == WorkKind::backward)
        freed = ended.kept_bytes;
    else if (kind == WorkKind::backward_weight)
        freed = ended.kept_bytes + ended.kept_for_weights_bytes;
    Rank& rank = ranks_[ended.rank.index()];
    rank.held -= freed;
    rank.microbatches[ended.microbatch.index()].held -= freed;
}

bool fits_memory(WorkGraph const& graph, Evaluation const& run) {
    for (std::size_t r = 0; r < run.peak_bytes.size(); ++r)
        if (run.peak_bytes[r] > MemoryRoom::with_margin(graph.memory_limits[r]))
            return false;
    return true;
}

} // namespace evener::schedule
