// SPDX-License-Identifier: Apache-2.0
#include "support/random_plan.hpp"

#include "program/placement.hpp"

#include <algorithm>

namespace evener::support {

namespace {

model::ModelConfig random_model(Random& random) {
    model::ModelConfig config;
    config.vocabulary = random.integer(5, 13);
    config.heads = 2;
    config.kv_heads = random.integer(1, 2);
    config.head_size = 4;
    config.hidden_size = 2 * random.integer(3, 5);
    config.decoder_layers = random.integer(1, 3);
    config.ffn_size = random.integer(5, 11);
    config.sequence_length = random.integer(2, 5);
    config.tied_embeddings = random.chance(50);
    config.attention_bias = random.chance(30);
    config.mlp_bias = random.chance(30);
    return config;
}

template <class T>
void shuffle(Random& random, std::vector<T>& values) {
    for (std::size_t i = 0; i + 1 < values.size(); ++i)
        std::swap(values[i], values[i + random.index(values.size() - i)]);
}

/// `count` cuts of [0, total) into `count + 1` runs that are not empty.
std::vector<std::int64_t> random_cuts(Random& random, std::int64_t total, std::int64_t parts) {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 1; i < total; ++i)
        places.push_back(i);
    shuffle(random, places);
    places.resize(static_cast<std::size_t>(parts - 1));
    places.push_back(0);
    places.push_back(total);
    std::sort(places.begin(), places.end());
    return places;
}

program::Group random_group(Random& random, std::vector<core::RankId> ranks) {
    program::Group group;
    group.ranks = std::move(ranks);
    std::size_t const size = group.ranks.size();
    for (std::size_t i = 0; i < size; ++i) {
        group.shares.push_back(random.chance(25) ? 0.0 : static_cast<double>(random.integer(1, 3)));
        group.shard_weights.push_back(
            random.chance(20) ? 0.0 : static_cast<double>(random.integer(1, 4)));
    }
    group.shares[random.index(size)] = 1;
    group.shard_weights[random.index(size)] = 1;
    if (random.chance(30))
        group.dispatch = program::Dispatch::dealt;
    if (random.chance(20))
        group.compute = core::DType::bfloat16;
    return group;
}

} // namespace

namespace {

model::ModelConfig deeper(model::ModelConfig config, std::int64_t decoder_layers) {
    config.decoder_layers = decoder_layers;
    return config;
}

/// Groups, ranks and batch; the chunks are up to the caller.
RandomCase make_groups(Random& random, std::int64_t ranks, std::int64_t groups) {
    RandomCase result;
    result.config = random_model(random);
    program::Plan& plan = result.plan;
    std::vector<core::RankId> order;
    for (std::int64_t r = 0; r < ranks; ++r)
        order.emplace_back(r);
    if (random.chance(50))
        shuffle(random, order);
    std::vector<std::int64_t> const rank_cuts = random_cuts(random, ranks, groups);
    for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g)
        plan.groups.push_back(
            random_group(random, {order.begin() + rank_cuts[g], order.begin() + rank_cuts[g + 1]}));
    plan.microbatch_size = random.integer(1, 4);
    plan.batch_size =
        (random.integer(1, 6) - 1) * plan.microbatch_size + random.integer(1, plan.microbatch_size);
    plan.split_backward = random.chance(50);
    for (program::Group& group : plan.groups)
        if (group.dispatch == program::Dispatch::dealt && random.chance(30))
            for (std::int64_t i = 0; i < plan.microbatch_count(); ++i)
                group.deal.push_back(static_cast<std::int32_t>(random.index(group.ranks.size())));
    return result;
}

void add_chunks(Random& random, RandomCase& result, std::vector<core::GroupId> const& groups) {
    auto const cuts = random_cuts(random, 2 + 2 * result.config.decoder_layers, std::ssize(groups));
    std::vector<std::int64_t> layers;
    for (std::size_t c = 0; c < groups.size(); ++c)
        layers.push_back(cuts[c + 1] - cuts[c]);
    result.plan.chunks = program::make_chunks(groups, layers);
    result.plan.boundary_types = program::default_boundary_types(result.plan);
}

} // namespace

RandomCase random_case(Random& random, int max_ranks) {
    std::int64_t const ranks = random.integer(1, max_ranks);
    std::int64_t const groups = random.integer(1, std::min<std::int64_t>(ranks, 4));
    RandomCase result = make_groups(random, ranks, groups);
    add_chunks(random, result, program::placed_groups(program::Placement::round_robin, groups, 1));
    result.plan.schedule =
        random.pick(std::vector<std::string>{"1f1b", "1f1b", "gpipe", "zb-h1", "zb-h2"});
    result.plan.receive_buffers = random.chance(50) ? 0 : random.integer(1, 3);
    return result;
}

RandomCase random_looped_case(Random& random, int max_ranks) {
    std::int64_t const ranks = random.integer(1, max_ranks);
    std::int64_t const groups = random.integer(1, std::min<std::int64_t>(ranks, 4));
    RandomCase result = make_groups(random, ranks, groups);
    std::int64_t const turns = random.integer(1, 4);
    result.config =
        deeper(result.config, std::max(result.config.decoder_layers, groups * turns / 2));
    using Names = std::vector<std::string>;
    Names names{"gpipe", "breadth_first"};
    std::vector<core::GroupId> chunks;
    if (std::int64_t const way = random.integer(0, 9); way < 4) {
        chunks = program::placed_groups(program::Placement::round_robin, groups, turns);
        names.insert(names.end(), 4, "interleaved");
    } else if (way < 8) {
        bool const twice = random.chance(70);
        chunks = program::placed_groups(program::Placement::v, groups, twice ? 2 : turns);
        if (twice)
            names.insert(names.end(), 6, "zb-v");
        result.config = deeper(result.config, std::max(result.config.decoder_layers, groups));
    } else { // any map, neighbours on the same group too
        chunks = program::placed_groups(program::Placement::round_robin, groups, 1);
        for (std::int64_t c = groups; c < groups * turns; ++c)
            chunks.emplace_back(random.integer(0, groups - 1));
        shuffle(random, chunks);
    }
    add_chunks(random, result, chunks);
    result.plan.schedule = random.pick(names);
    return result;
}

void add_levers(Random& random, program::Plan& plan) {
    for (program::Group& group : plan.groups) {
        if (random.chance(80))
            for (std::size_t member = 0; member < group.ranks.size(); ++member)
                group.own_memory.push_back(random.chance(75));
        group.offload = {random.chance(60), random.chance(60), random.chance(60)};
    }
    bool const all = random.chance(20);
    for (program::Chunk& chunk : plan.chunks)
        chunk.recompute = all || random.chance(40);
    plan.interleaved_updates = random.chance(35);
}

} // namespace evener::support
