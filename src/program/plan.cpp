// SPDX-License-Identifier: Apache-2.0
#include "program/plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

namespace evener::program {

namespace {

bool usable(std::vector<double> const& weights) {
    bool positive = false;
    for (double const weight : weights) {
        if (!(weight >= 0) || !std::isfinite(weight))
            return false;
        positive = positive || weight > 0;
    }
    return positive;
}

void check_group(Plan const& plan, std::size_t g, std::vector<int>& seen,
                 std::vector<std::string>& problems) {
    Group const& group = plan.groups[g];
    if (group.ranks.empty())
        problems.push_back(fmt::format("group {} has no ranks; give it at least one", g));
    if (group.shares.size() != group.ranks.size() || !usable(group.shares))
        problems.push_back(fmt::format(
            "the shares of group {} must be one number >= 0 for each of its {} ranks, one of them "
            "positive",
            g, group.ranks.size()));
    if (group.shard_weights.size() != group.ranks.size() || !usable(group.shard_weights))
        problems.push_back(fmt::format(
            "the shard weights of group {} must be one number >= 0 for each of its {} ranks, one "
            "of them positive",
            g, group.ranks.size()));
    if (group.dispatch != Dispatch::dealt && !group.deal.empty())
        problems.push_back(fmt::format("group {} shares its microbatches and has a deal, too; "
                                       "leave the deal out",
                                       g));
    else if (!group.deal.empty() && std::ssize(group.deal) != plan.microbatch_count())
        problems.push_back(fmt::format("the deal of group {} is for {} microbatches (a batch has "
                                       "{}); name a rank for each",
                                       g, group.deal.size(), plan.microbatch_count()));
    for (std::int32_t const member : group.deal)
        if (member < 0 || member >= std::ssize(group.ranks)) {
            problems.push_back(fmt::format("the deal of group {} names its rank number {} (it has "
                                           "{}); use 0 to {}",
                                           g, member, group.ranks.size(), group.ranks.size() - 1));
            break;
        }
    if (!group.own_memory.empty() && group.own_memory.size() != group.ranks.size())
        problems.push_back(fmt::format("group {} says of {} ranks whether their devices have a "
                                       "memory of their own (it has {}); say it of each, or of "
                                       "none",
                                       g, group.own_memory.size(), group.ranks.size()));
    for (core::RankId const rank : group.ranks) {
        if (!rank.valid() || rank.value >= plan.rank_count())
            problems.push_back(fmt::format("rank {} of group {} is outside 0 to {}", rank.value, g,
                                           plan.rank_count() - 1));
        else if (++seen[rank.index()] == 2)
            problems.push_back(
                fmt::format("rank {} stands in more than one place; list it once", rank.value));
    }
    bool const has_chunk =
        std::any_of(plan.chunks.begin(), plan.chunks.end(),
                    [&](Chunk const& chunk) { return chunk.group.index() == g; });
    if (!has_chunk)
        problems.push_back(
            fmt::format("group {} has no layers; give it at least one or drop it", g));
}

void check_chunks(Plan const& plan, model::Model const& model, std::vector<std::string>& problems) {
    std::int64_t next = 0;
    for (Chunk const& chunk : plan.chunks) {
        if (!chunk.group.valid() || chunk.group.index() >= plan.groups.size()) {
            problems.push_back(fmt::format("layers {} to {} belong to group {}, which is not there",
                                           chunk.layers.begin, chunk.layers.end,
                                           chunk.group.value));
            return;
        }
        if (chunk.layers.begin != next || chunk.layers.empty()) {
            problems.push_back(
                fmt::format("group {} holds the layers {} to {}, but {} comes next; every layer "
                            "must be placed once, in order",
                            chunk.group.value, chunk.layers.begin, chunk.layers.end, next));
            return;
        }
        next = chunk.layers.end;
    }
    if (next != model.layer_count())
        problems.push_back(fmt::format("the groups hold {} layers (the model has {}: embedding, "
                                       "attention and feed-forward of each decoder layer, head)",
                                       next, model.layer_count()));
}

} // namespace

std::int64_t Plan::rank_count() const {
    std::int64_t count = 0;
    for (Group const& group : groups)
        count += std::ssize(group.ranks);
    return count;
}

core::Range Plan::microbatch_range(core::MicrobatchId id) const {
    std::int64_t const begin = id.value * microbatch_size;
    return {begin, std::min(begin + microbatch_size, batch_size)};
}

std::vector<std::int64_t> largest_remainder(std::int64_t total,
                                            std::vector<double> const& weights) {
    double const sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    EVENER_EXPECT(sum > 0 && total >= 0);
    std::vector<std::int64_t> parts(weights.size());
    std::vector<double> remainders(weights.size());
    std::int64_t given = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        double const exact = static_cast<double>(total) * weights[i] / sum;
        parts[i] = std::min(static_cast<std::int64_t>(exact), total - given);
        remainders[i] = weights[i] > 0 ? exact - static_cast<double>(parts[i]) : -1;
        given += parts[i];
    }
    std::vector<std::size_t> order(weights.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](std::size_t a, std::size_t b) { return remainders[a] > remainders[b]; });
    for (std::size_t i = 0; given < total; i = (i + 1) % order.size()) {
        if (weights[order[i]] > 0) {
            ++parts[order[i]];
            ++given;
        }
    }
    return parts;
}

std::vector<std::int32_t> deal_by_weights(std::vector<double> const& weights, std::int64_t count) {
    double const sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    EVENER_EXPECT(sum > 0 && count >= 0);
    std::vector<std::int64_t> counts(weights.size());
    std::vector<std::int32_t> deal;
    for (std::int64_t i = 0; i < count; ++i) {
        double most = -1;
        std::size_t chosen = 0;
        for (std::size_t j = 0; j < weights.size(); ++j) {
            double const behind =
                static_cast<double>(i + 1) * weights[j] / sum - static_cast<double>(counts[j]);
            if (weights[j] > 0 && behind > most + 1e-9) {
                most = behind;
                chosen = j;
            }
        }
        ++counts[chosen];
        deal.push_back(core::narrow<std::int32_t>(static_cast<std::int64_t>(chosen)));
    }
    return deal;
}

std::vector<std::int32_t> deal_of(Group const& group, std::int64_t count) {
    EVENER_EXPECT(group.dispatch == Dispatch::dealt);
    if (group.deal.empty())
        return deal_by_weights(group.shares, count);
    EVENER_EXPECT(std::ssize(group.deal) == count);
    return group.deal;
}

core::Range sequences_of(Plan const& plan, Group const& group, std::size_t member,
                         core::MicrobatchId microbatch) {
    core::Range const range = plan.microbatch_range(microbatch);
    if (group.dispatch == Dispatch::dealt) {
        std::int32_t const owner = group.deal.empty()
                                       ? deal_by_weights(group.shares, microbatch.value + 1).back()
                                       : group.deal.at(microbatch.index());
        return static_cast<std::size_t>(owner) == member ? range
                                                         : core::Range{range.begin, range.begin};
    }
    std::vector<std::int64_t> const parts = largest_remainder(range.size(), group.shares);
    std::int64_t const begin = std::accumulate(
        parts.begin(), parts.begin() + static_cast<std::ptrdiff_t>(member), range.begin);
    return {begin, begin + parts[member]};
}

std::int64_t member_of(Group const& group, core::RankId rank) {
    auto const found = std::find(group.ranks.begin(), group.ranks.end(), rank);
    return found == group.ranks.end() ? -1 : found - group.ranks.begin();
}

Offload offload_of(Plan const& plan, core::RankId rank) {
    for (Group const& group : plan.groups)
        if (std::int64_t const member = member_of(group, rank); member >= 0)
            return !group.own_memory.empty() && group.own_memory[static_cast<std::size_t>(member)]
                       ? group.offload
                       : Offload{};
    return {};
}

std::vector<core::DType> default_boundary_types(Plan const& plan) {
    std::vector<core::DType> types;
    for (std::size_t c = 0; c + 1 < plan.chunks.size(); ++c) {
        bool const wide = plan.group_of(core::ChunkId{static_cast<std::int64_t>(c)}).compute ==
                              core::DType::float32 &&
                          plan.group_of(core::ChunkId{static_cast<std::int64_t>(c + 1)}).compute ==
                              core::DType::float32;
        types.push_back(wide ? core::DType::float32 : core::DType::bfloat16);
    }
    return types;
}

std::vector<std::string> plan_problems(Plan const& plan, model::Model const& model) {
    std::vector<std::string> problems;
    if (plan.batch_size < 1 || plan.microbatch_size < 1)
        problems.push_back("batch and microbatch must have at least one sequence");
    if (plan.groups.empty())
        problems.push_back("the plan has no groups");
    std::vector<int> seen(static_cast<std::size_t>(plan.rank_count()));
    for (std::size_t g = 0; g < plan.groups.size(); ++g)
        check_group(plan, g, seen, problems);
    for (std::size_t r = 0; r < seen.size(); ++r)
        if (seen[r] == 0)
            problems.push_back(fmt::format("rank {} is in no group; ranks count from 0 without "
                                           "gaps",
                                           r));
    check_chunks(plan, model, problems);
    if (plan.boundary_types.size() + 1 != plan.chunks.size() && !plan.chunks.empty())
        problems.push_back("each boundary between groups needs one wire type");
    return problems;
}

} // namespace evener::program
