// SPDX-License-Identifier: Apache-2.0
#include "schedule/orders.hpp"

#include <algorithm>

namespace evener::schedule {

using core::ChunkId;
using core::MicrobatchId;
using program::Group;
using program::Plan;
using program::Work;
using program::WorkKind;

std::vector<std::vector<MicrobatchId>> microbatches_of(Plan const& plan, Group const& group) {
    std::int64_t const count = plan.microbatch_count();
    std::vector<std::vector<MicrobatchId>> result(group.ranks.size());
    if (group.dispatch == program::Dispatch::dealt) {
        std::vector<std::int32_t> const deal = program::deal_of(group, count);
        for (std::int64_t i = 0; i < count; ++i)
            result[static_cast<std::size_t>(deal[static_cast<std::size_t>(i)])].emplace_back(i);
        return result;
    }
    for (std::int64_t i = 0; i < count; ++i) {
        std::vector<std::int64_t> const parts =
            program::largest_remainder(plan.microbatch_range(MicrobatchId{i}).size(), group.shares);
        for (std::size_t member = 0; member < parts.size(); ++member)
            if (parts[member] > 0)
                result[member].emplace_back(i);
    }
    return result;
}

std::vector<Stage> stages_of(Plan const& plan) {
    std::vector<Stage> stages;
    std::int64_t in_front = 0;
    for (std::size_t c = 0; c < plan.groups.size(); ++c) {
        Group const& group = plan.groups[plan.chunks[c].group.index()];
        Stage& stage =
            stages.emplace_back(Stage{&group, 1, in_front, microbatches_of(plan, group)});
        if (group.dispatch == program::Dispatch::dealt)
            stage.width = std::ranges::count_if(stage.microbatches,
                                                [](auto const& mine) { return !mine.empty(); });
        in_front += stage.width;
    }
    return stages;
}

std::int64_t total_width(std::vector<Stage> const& stages) {
    return stages.back().in_front + stages.back().width;
}

void add_backward(std::vector<Work>& order, Plan const& plan, ChunkId chunk,
                  MicrobatchId microbatch) {
    if (!plan.split_backward) {
        order.push_back({WorkKind::backward, chunk, microbatch});
        return;
    }
    order.push_back({WorkKind::backward_input, chunk, microbatch});
    order.push_back({WorkKind::backward_weight, chunk, microbatch});
}

Orders forward_then_backward(Plan const& plan, bool backward_reversed) {
    Orders orders(static_cast<std::size_t>(plan.rank_count()));
    for (std::size_t g = 0; g < plan.groups.size(); ++g) {
        Group const& group = plan.groups[g];
        std::vector<ChunkId> chunks;
        for (std::size_t c = 0; c < plan.chunks.size(); ++c)
            if (plan.chunks[c].group.index() == g)
                chunks.emplace_back(static_cast<std::int64_t>(c));
        auto microbatches = microbatches_of(plan, group);
        for (std::size_t member = 0; member < group.ranks.size(); ++member) {
            auto& order = orders[group.ranks[member].index()];
            auto& mine = microbatches[member];
            for (ChunkId const chunk : chunks)
                for (MicrobatchId const id : mine)
                    order.push_back({WorkKind::forward, chunk, id});
            if (backward_reversed)
                std::ranges::reverse(mine);
            for (std::size_t c = chunks.size(); c-- > 0;)
                for (MicrobatchId const id : mine)
                    add_backward(order, plan, chunks[c], id);
        }
    }
    return orders;
}

// In rounds of as many microbatches as there are stages: enough to keep all of them busy, and few
// enough that a group which holds several chunks gets no long queue of messages.
Orders forward_only(Plan const& plan) {
    Orders orders(static_cast<std::size_t>(plan.rank_count()));
    std::int64_t round = 0;
    std::vector<std::vector<std::vector<MicrobatchId>>> microbatches;
    for (Group const& group : plan.groups) {
        microbatches.push_back(microbatches_of(plan, group));
        round += group.dispatch == program::Dispatch::dealt ? std::ssize(group.ranks) : 1;
    }
    for (std::int64_t begin = 0; begin < plan.microbatch_count(); begin += round)
        for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
            std::size_t const g = plan.chunks[c].group.index();
            for (std::size_t member = 0; member < plan.groups[g].ranks.size(); ++member) {
                auto const& mine = microbatches[g][member];
                auto& order = orders[plan.groups[g].ranks[member].index()];
                for (auto id = std::ranges::lower_bound(mine, MicrobatchId{begin});
                     id != mine.end() && id->value < begin + round; ++id)
                    order.push_back(
                        {WorkKind::forward, ChunkId{static_cast<std::int64_t>(c)}, *id});
            }
        }
    return orders;
}

} // namespace evener::schedule
