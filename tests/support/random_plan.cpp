// SPDX-License-Identifier: Apache-2.0
#include "support/random_plan.hpp"

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

/// `count` cuts of [0, total) into `count + 1` runs that are not empty.
std::vector<std::int64_t> random_cuts(Random& random, std::int64_t total, std::int64_t parts) {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 1; i < total; ++i)
        places.push_back(i);
    for (std::size_t i = 0; i + 1 < places.size(); ++i)
        std::swap(places[i], places[i + random.index(places.size() - i)]);
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

RandomCase make_case(Random& random, int max_ranks, std::int64_t max_turns) {
    RandomCase result;
    result.config = random_model(random);
    program::Plan& plan = result.plan;
    std::int64_t const layers = 2 + 2 * result.config.decoder_layers;
    std::int64_t const ranks = random.integer(1, max_ranks);
    std::int64_t const groups = random.integer(1, std::min<std::int64_t>({ranks, layers, 4}));

    std::int64_t const chunks = groups * random.integer(1, std::min(max_turns, layers / groups));

    std::vector<core::RankId> order;
    for (std::int64_t r = 0; r < ranks; ++r)
        order.emplace_back(r);
    if (random.chance(50))
        for (std::size_t i = 0; i + 1 < order.size(); ++i)
            std::swap(order[i], order[i + random.index(order.size() - i)]);
    std::vector<std::int64_t> const rank_cuts = random_cuts(random, ranks, groups);
    std::vector<std::int64_t> const layer_cuts = random_cuts(random, layers, chunks);
    for (std::size_t g = 0; g < static_cast<std::size_t>(groups); ++g)
        plan.groups.push_back(
            random_group(random, {order.begin() + rank_cuts[g], order.begin() + rank_cuts[g + 1]}));
    for (std::int64_t c = 0; c < chunks; ++c)
        plan.chunks.push_back({core::GroupId{c % groups},
                               {layer_cuts[static_cast<std::size_t>(c)],
                                layer_cuts[static_cast<std::size_t>(c) + 1]}});
    plan.microbatch_size = random.integer(1, 4);
    plan.batch_size =
        (random.integer(1, 6) - 1) * plan.microbatch_size + random.integer(1, plan.microbatch_size);
    plan.schedule = random.chance(60) ? "1f1b" : "gpipe";
    plan.split_backward = random.chance(50);
    plan.receive_buffers = random.chance(50) ? 0 : random.integer(1, 3);
    plan.boundary_types = program::default_boundary_types(plan);
    return result;
}

} // namespace

RandomCase random_case(Random& random, int max_ranks) {
    return make_case(random, max_ranks, 1);
}

RandomCase random_looped_case(Random& random, int max_ranks) {
    return make_case(random, max_ranks, 3);
}

program::Schedule breadth_first(program::Plan const& plan, program::ProgramKind kind) {
    program::Schedule schedule;
    schedule.name = "breadth_first";
    for (std::int64_t r = 0; r < plan.rank_count(); ++r) {
        auto& order = schedule.ranks.emplace_back();
        auto const add = [&](program::WorkKind work, std::int64_t c) {
            core::ChunkId const chunk{c};
            program::Group const& group = plan.group_of(chunk);
            std::int64_t const member = program::member_of(group, core::RankId{r});
            for (std::int64_t m = 0; member >= 0 && m < plan.microbatch_count(); ++m)
                if (core::MicrobatchId const id{m};
                    !program::sequences_of(plan, group, static_cast<std::size_t>(member), id)
                         .empty())
                    order.push_back({work, chunk, id});
        };
        for (std::int64_t c = 0; c < std::ssize(plan.chunks); ++c)
            add(program::WorkKind::forward, c);
        for (std::int64_t c = std::ssize(plan.chunks); c-- > 0;) {
            if (kind == program::ProgramKind::evaluate)
                continue;
            add(plan.split_backward ? program::WorkKind::backward_input
                                    : program::WorkKind::backward,
                c);
            if (plan.split_backward)
                add(program::WorkKind::backward_weight, c);
        }
    }
    return schedule;
}

} // namespace evener::support
