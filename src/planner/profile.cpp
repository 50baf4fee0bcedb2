// SPDX-License-Identifier: Apache-2.0
#include "planner/profile.hpp"

#include "model/chunk_layout.hpp"

#include <algorithm>

namespace evener::planner {

using core::ChunkId;
using core::LayerId;
using core::RankId;

Profile estimated_profile(model::Model const& model, std::vector<double> const& gflops) {
    Profile profile;
    for (double const rate : gflops) {
        EVENER_EXPECT(rate > 0);
        RankProfile& rank = profile.ranks.emplace_back();
        for (std::int64_t l = 0; l < model.layer_count(); ++l) {
            model::Layer const& layer = model.layer(LayerId{l});
            double const seconds = layer.forward_flops() / (1e9 * rate);
            LayerSeconds& entry = rank.layers[std::string{layer.kind()}];
            entry = {seconds, seconds, seconds, 2 * seconds};
            if (layer.gradients_in_backward_input())
                entry = {0, 3 * seconds, 0, 3 * seconds}; // the head does all of its work there
        }
    }
    profile.network = program::free_network(std::ssize(gflops));
    profile.source = "FLOPs over matrix rates";
    return profile;
}

std::map<std::string, std::string> model_facts(model::Model const& model) {
    std::map<std::string, std::string> facts = model.description();
    for (char const* const name : {"layers", "rope_theta", "norm_epsilon", "tied_embeddings"})
        facts.erase(name);
    facts["sequence_length"] = std::to_string(model.config().sequence_length);
    return facts;
}

namespace {

/// Bytes that the copies of a chunk's pass move, in the chunk's type.
double boundary_bytes(program::Plan const& plan, model::Model const& model, ChunkId chunk,
                      std::int64_t sequences) {
    core::Range const layers = plan.chunks[chunk.index()].layers;
    auto const bytes = static_cast<double>(
        model::boundary_bytes(model.config(), sequences, plan.group_of(chunk).compute));
    double sum = 0;
    if (layers.begin > 0)
        sum += bytes;
    if (layers.end < model.layer_count())
        sum += bytes;
    return sum;
}

/// Sequences of the member's part of a whole microbatch.
std::int64_t part_sequences(program::Plan const& plan, program::Group const& group,
                            std::size_t member) {
    if (group.dispatch == program::Dispatch::dealt)
        return plan.microbatch_size;
    return program::largest_remainder(plan.microbatch_size, group.shares)[member];
}

} // namespace

program::Costs costs_of(Profile const& profile, program::Plan const& plan,
                        model::Model const& model) {
    EVENER_EXPECT(std::ssize(profile.ranks) == plan.rank_count());
    program::Costs costs = program::uniform_costs(plan, {});
    costs.network = profile.network;
    for (std::size_t r = 0; r < profile.ranks.size(); ++r) {
        costs.measure_seconds_per_element[r] = profile.ranks[r].measure_seconds_per_element;
        costs.update_seconds_per_element[r] = profile.ranks[r].update_seconds_per_element;
        costs.repeat[r] = profile.ranks[r].repeat;
        costs.contention[r] = profile.ranks[r].contention;
        costs.nodes[r] = profile.ranks[r].node;
        costs.copies[r] = profile.ranks[r].copies.value_or(program::CopyRates{});
    }
    for (std::size_t c = 0; c < plan.chunks.size(); ++c) {
        ChunkId const chunk{static_cast<std::int64_t>(c)};
        program::Group const& group = plan.group_of(chunk);
        for (std::size_t member = 0; member < group.ranks.size(); ++member) {
            RankProfile const& rank = profile.ranks[group.ranks[member].index()];
            std::int64_t const sequences = part_sequences(plan, group, member);
            LayerSeconds sum;
            for (std::int64_t l = plan.chunks[c].layers.begin; l < plan.chunks[c].layers.end; ++l) {
                LayerSeconds const& layer =
                    rank.layers.at(std::string{model.layer(LayerId{l}).kind()});
                sum.forward += layer.forward;
                sum.backward_input += layer.backward_input;
                sum.backward_weight += layer.backward_weight;
                sum.backward += layer.backward;
            }
            auto const n = static_cast<double>(sequences);
            double const copies =
                rank.boundary_seconds_per_byte * boundary_bytes(plan, model, chunk, sequences);
            program::ChunkSeconds& own = costs.chunks[group.ranks[member].index()][c];
            own.forward = n * sum.forward + copies + rank.instruction_seconds;
            own.backward_input = n * sum.backward_input + copies + rank.instruction_seconds;
            own.backward_weight = n * sum.backward_weight + rank.instruction_seconds;
            own.backward = n * sum.backward + copies + rank.instruction_seconds;
        }
    }
    return costs;
}

} // namespace evener::planner
