// SPDX-License-Identifier: Apache-2.0
#include "program/buckets.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

namespace evener::program {

namespace {

bool has_work(Plan const& plan, Group const& group, std::size_t member) {
    std::int64_t const count = plan.microbatch_count();
    if (group.dispatch == Dispatch::dealt) {
        auto const deal = deal_of(group, count);
        return std::find(deal.begin(), deal.end(), static_cast<std::int32_t>(member)) != deal.end();
    }
    for (std::int64_t i = 0; i < count; ++i)
        if (!sequences_of(plan, group, member, core::MicrobatchId{i}).empty())
            return true;
    return false;
}

/// The row boundary of the bucket nearest to `target` elements.
std::int64_t nearest_row(Bucket const& bucket, double target) {
    for (BucketParameter const& entry : bucket.parameters) {
        std::int64_t const end = entry.offset + entry.rows * entry.cols;
        if (target <= static_cast<double>(end)) {
            auto const row = std::llround((target - static_cast<double>(entry.offset)) /
                                          static_cast<double>(entry.cols));
            return entry.offset + std::clamp<std::int64_t>(row, 0, entry.rows) * entry.cols;
        }
    }
    return bucket.elements;
}

void cut_shards(Bucket& bucket, std::map<core::RankId, double> const& weights) {
    double sum = 0;
    for (auto const& [rank, weight] : weights)
        sum += weight;
    double reached = 0;
    std::int64_t begin = 0;
    for (auto const& [rank, weight] : weights) {
        reached += weight;
        bool const rest_is_zero = std::none_of(weights.upper_bound(rank), weights.end(),
                                               [](auto const& w) { return w.second > 0; });
        std::int64_t const end =
            rest_is_zero
                ? bucket.elements
                : nearest_row(bucket, static_cast<double>(bucket.elements) * reached / sum);
        if (end > begin)
            bucket.shards.push_back({rank, {begin, end}});
        begin = std::max(begin, end);
    }
}

void add_members(Bucket& bucket, Plan const& plan) {
    std::set<core::RankId> holders;
    std::map<core::RankId, double> weights;
    std::map<core::RankId, core::DType> types;
    for (core::ChunkId const chunk : bucket.chunks) {
        Group const& group = plan.group_of(chunk);
        double const sum =
            std::accumulate(group.shard_weights.begin(), group.shard_weights.end(), 0.0);
        for (std::size_t member = 0; member < group.ranks.size(); ++member) {
            core::RankId const rank = group.ranks[member];
            if (has_work(plan, group, member))
                holders.insert(rank);
            // Parts of a group of size n weigh n together, so groups share by their numbers of
            // ranks.
            weights[rank] =
                group.shard_weights[member] / sum * static_cast<double>(group.ranks.size());
            types[rank] = group.compute;
        }
    }
    bucket.holders.assign(holders.begin(), holders.end());
    cut_shards(bucket, weights);
    for (auto const& [rank, type] : types)
        if (bucket.holds(rank) || !bucket.shard_of(rank).empty()) {
            bucket.members.push_back(rank);
            bucket.types.push_back(type);
        }
}

Bucket make_bucket(std::vector<core::ChunkId> chunks, std::vector<core::ParameterId> const& ids,
                   Plan const& plan, model::Model const& model) {
    Bucket bucket;
    bucket.chunks = std::move(chunks);
    for (core::ParameterId const id : ids) {
        model::Parameter const& parameter = model.parameter(id);
        bucket.parameters.push_back({id, bucket.elements, parameter.rows, parameter.cols});
        bucket.elements += parameter.elements();
    }
    add_members(bucket, plan);
    return bucket;
}

} // namespace

bool Bucket::holds(core::RankId rank) const {
    return std::binary_search(holders.begin(), holders.end(), rank);
}

core::Range Bucket::shard_of(core::RankId rank) const {
    for (Shard const& shard : shards)
        if (shard.owner == rank)
            return shard.elements;
    return {};
}

core::DType Bucket::type_of(core::RankId rank) const {
    auto const found = std::find(members.begin(), members.end(), rank);
    EVENER_EXPECT(found != members.end());
    return types[static_cast<std::size_t>(found - members.begin())];
}

core::Range Bucket::weights_of(core::RankId rank) const {
    return holds(rank) ? core::Range{0, elements} : shard_of(rank);
}

std::vector<Bucket> make_buckets(Plan const& plan, model::Model const& model) {
    std::vector<Bucket> own;
    std::vector<Bucket> shared;
    std::vector<std::vector<core::ParameterId>> chunk_parameters(plan.chunks.size());
    for (std::size_t p = 0; p < model.parameters().size(); ++p) {
        core::ParameterId const id{static_cast<std::int64_t>(p)};
        std::set<core::ChunkId> chunks;
        for (core::LayerId const layer : model.layers_of(id))
            for (std::size_t c = 0; c < plan.chunks.size(); ++c)
                if (layer.value >= plan.chunks[c].layers.begin &&
                    layer.value < plan.chunks[c].layers.end)
                    chunks.insert(core::ChunkId{static_cast<std::int64_t>(c)});
        if (chunks.size() == 1)
            chunk_parameters[chunks.begin()->index()].push_back(id);
        else
            shared.push_back(make_bucket({chunks.begin(), chunks.end()}, {id}, plan, model));
    }
    for (std::size_t c = 0; c < plan.chunks.size(); ++c)
        if (!chunk_parameters[c].empty())
            own.push_back(make_bucket({core::ChunkId{static_cast<std::int64_t>(c)}},
                                      chunk_parameters[c], plan, model));
    own.insert(own.end(), shared.begin(), shared.end());
    for (std::size_t b = 0; b < own.size(); ++b)
        own[b].id = core::BucketId{static_cast<std::int64_t>(b)};
    return own;
}

std::vector<Slice> slices_of(Bucket const& bucket, core::Range elements) {
    std::vector<Slice> slices;
    for (BucketParameter const& entry : bucket.parameters) {
        core::Range const part =
            core::overlap(elements, {entry.offset, entry.offset + entry.rows * entry.cols});
        if (part.empty())
            continue;
        EVENER_EXPECT((part.begin - entry.offset) % entry.cols == 0 &&
                      (part.end - entry.offset) % entry.cols == 0);
        slices.push_back(
            {entry.parameter,
             {(part.begin - entry.offset) / entry.cols, (part.end - entry.offset) / entry.cols},
             entry.cols,
             part.begin});
    }
    return slices;
}

} // namespace evener::program
