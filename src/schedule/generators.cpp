// SPDX-License-Identifier: Apache-2.0
#include "schedule/generators.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::schedule {

using core::ChunkId;
using core::MicrobatchId;
using program::Plan;
using program::Work;
using program::WorkKind;

namespace {

std::int64_t width_of(program::Group const& group) {
    if (group.dispatch == program::Dispatch::shares)
        return 1;
    return std::count_if(group.shares.begin(), group.shares.end(),
                         [](double share) { return share > 0; });
}

/// Microbatches that group of chunk c may hold between Forward and Backward.
std::int64_t window_of(Plan const& plan, std::size_t c) {
    std::int64_t window = 0;
    for (std::size_t i = c; i < plan.chunks.size(); ++i)
        window += width_of(plan.groups[plan.chunks[i].group.index()]);
    return window;
}

void add_backward(std::vector<Work>& order, Plan const& plan, ChunkId chunk, MicrobatchId id) {
    if (!plan.split_backward) {
        order.push_back({WorkKind::backward, chunk, id});
        return;
    }
    order.push_back({WorkKind::backward_input, chunk, id});
    order.push_back({WorkKind::backward_weight, chunk, id});
}

/// Forward of `mine` in order; before the Forward of i, Backward of everything up to i - window.
std::vector<Work> windowed(Plan const& plan, ChunkId chunk, std::vector<MicrobatchId> const& mine,
                           std::int64_t window) {
    std::vector<Work> order;
    std::size_t next = 0;
    for (MicrobatchId const id : mine) {
        while (next < mine.size() && mine[next].value <= id.value - window)
            add_backward(order, plan, chunk, mine[next++]);
        order.push_back({WorkKind::forward, chunk, id});
    }
    while (next < mine.size())
        add_backward(order, plan, chunk, mine[next++]);
    return order;
}

} // namespace

program::Schedule generate(Plan const& plan, program::ProgramKind kind) {
    EVENER_EXPECT(plan.chunks.size() == plan.groups.size());
    if (plan.schedule != "1f1b" && plan.schedule != "gpipe")
        throw core::ConfigError{
            fmt::format("schedule '{}' is not known; use \"1f1b\" or \"gpipe\"", plan.schedule)};
    program::Schedule schedule;
    schedule.name = plan.schedule;
    schedule.ranks.resize(static_cast<std::size_t>(plan.rank_count()));
    std::int64_t const microbatches = plan.microbatch_count();
    for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
        ChunkId const chunk{static_cast<std::int64_t>(c)};
        program::Group const& group = plan.group_of(chunk);
        for (std::size_t member = 0; member < group.ranks.size(); ++member) {
            std::vector<MicrobatchId> mine;
            for (std::int64_t i = 0; i < microbatches; ++i)
                if (!program::sequences_of(plan, group, member, MicrobatchId{i}).empty())
                    mine.push_back(MicrobatchId{i});
            auto& order = schedule.ranks[group.ranks[member].index()];
            if (kind == program::ProgramKind::evaluate) {
                for (MicrobatchId const id : mine)
                    order.push_back({WorkKind::forward, chunk, id});
            } else {
                order = windowed(plan, chunk, mine,
                                 plan.schedule == "gpipe" ? microbatches : window_of(plan, c));
            }
        }
    }
    return schedule;
}

} // namespace evener::schedule
