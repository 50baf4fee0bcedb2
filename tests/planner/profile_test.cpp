// SPDX-License-Identifier: Apache-2.0
#include "planner/profile.hpp"
#include "planner/profile_file.hpp"
#include "schedule/contention.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "schedule/simulator.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace evener::planner {
namespace {

using core::RankId;

model::ModelConfig small_config() {
    model::ModelConfig config;
    config.vocabulary = 11;
    config.hidden_size = 8;
    config.decoder_layers = 3;
    config.heads = config.kv_heads = 2;
    config.head_size = 4;
    config.ffn_size = 12;
    config.sequence_length = 4;
    return config;
}

/// Layers [0, cut) on rank 0, the rest on rank 1; microbatches of two sequences.
program::Plan two_stages(model::Model const& model, std::int64_t cut) {
    program::Plan plan;
    for (std::int64_t g = 0; g < 2; ++g)
        plan.groups.push_back({.ranks = {RankId{g}}, .shares = {1}, .shard_weights = {1}});
    plan.chunks = {{core::GroupId{0}, {0, cut}}, {core::GroupId{1}, {cut, model.layer_count()}}};
    plan.batch_size = 6;
    plan.microbatch_size = 2;
    plan.boundary_types = program::default_boundary_types(plan);
    return plan;
}

/// Different for every kind and phase; rank 1 is twice as slow.
Profile known_profile() {
    Profile profile;
    for (double const slowness : {1.0, 2.0}) {
        RankProfile rank;
        double next = 1;
        for (char const* const kind : {"embedding", "attention", "feed_forward", "head"}) {
            rank.layers[kind] = {slowness * next, slowness * (next + 0.25), slowness * (next + 0.5),
                                 slowness * (2 * next + 0.625)};
            next += 1;
        }
        rank.boundary_seconds_per_byte = slowness * 1e-3;
        rank.instruction_seconds = slowness * 0.125;
        rank.measure_seconds_per_element = slowness * 1e-5;
        rank.update_seconds_per_element = slowness * 1e-4;
        profile.ranks.push_back(rank);
    }
    profile.ranks[1].copies = {{0.25, 2e-4}, {0.5, 3e-4}};
    profile.network = program::uniform_network(2, {0.5, 2e-3});
    profile.source = "known";
    return profile;
}

// Rank 0: embedding, attention, feed-forward of two sequences, and copies of its one boundary.
TEST(Costs, AddUpTheLayersOfAChunk) {
    model::Model const model{small_config()};
    auto const costs = costs_of(known_profile(), two_stages(model, 3), model);
    double const copies = 1e-3 * 2 * 4 * 8 * 4; // 2 sequences of 4 tokens, 8 floats wide
    EXPECT_DOUBLE_EQ(costs.chunks[0][0].forward, 2 * (1 + 2 + 3) + copies + 0.125);
    EXPECT_DOUBLE_EQ(costs.chunks[0][0].backward_input, 2 * (1.25 + 2.25 + 3.25) + copies + 0.125);
    EXPECT_DOUBLE_EQ(costs.chunks[0][0].backward_weight, 2 * (1.5 + 2.5 + 3.5) + 0.125);
    EXPECT_DOUBLE_EQ(costs.chunks[0][0].backward, 2 * (2.625 + 4.625 + 6.625) + copies + 0.125);
    EXPECT_DOUBLE_EQ(costs.chunks[1][1].forward, 2 * (2 * (2 + 3 + 2 + 3 + 4) + copies + 0.125));
    EXPECT_DOUBLE_EQ(costs.chunks[0][1].forward, 0);
    EXPECT_EQ(costs.copies[0], program::CopyRates{});
    EXPECT_DOUBLE_EQ(costs.copies[1].out.seconds(1000), 0.5 + 0.3);
}

/// What a run would measure if everything took exactly what the costs say.
program::Measurement perfect_measurement(program::ProgramSet const& set, model::Model const& model,
                                         Profile const& profile) {
    auto const costs = costs_of(profile, set.plan, model);
    program::Measurement result;
    result.timeline =
        schedule::simulate(set, program::instruction_seconds(costs, set), costs.network).timeline;
    double const microbatches = static_cast<double>(set.plan.microbatch_count());
    double const sequences = 2 * microbatches;
    for (std::size_t r = 0; r < 2; ++r) {
        program::RankMeasurement rank;
        for (std::int64_t l = 0; l < model.layer_count(); ++l) {
            core::Range const own = set.plan.chunks[r].layers;
            program::LayerSpent spent;
            if (l >= own.begin && l < own.end) {
                LayerSeconds const seconds =
                    profile.ranks[r].layers.at(std::string{model.layer(core::LayerId{l}).kind()});
                // Fused, the weight half is the faster one.
                double const input = seconds.backward_input;
                double const weight =
                    set.plan.split_backward ? seconds.backward_weight : seconds.backward - input;
                spent = {{sequences * seconds.forward, sequences},
                         {sequences * input, sequences},
                         {sequences * weight, sequences}};
            }
            rank.layers.push_back(spent);
        }
        double const bytes = 2 * microbatches * 2 * 4 * 8 * 4; // forward and backward
        rank.boundaries = {bytes * profile.ranks[r].boundary_seconds_per_byte, bytes};
        result.ranks.push_back(rank);
    }
    return result;
}

// Measured from a perfect run under one cut, a profile predicts what other cuts cost. The last plan
// exchanges the ranks: rank 0 gets the head, which only rank 1 had, and rank 1 the embedding, each by
// the two ranks' relation in what both had.
TEST(MeasuredProfile, FindsTheCostsThatMadeTheRun) {
    model::Model const model{small_config()};
    Profile const known = known_profile();
    std::vector<CalibrationRun> runs;
    for (bool const split : {false, true}) {
        program::Plan plan = two_stages(model, 3);
        plan.split_backward = split;
        auto const set =
            schedule::lower(plan, model, schedule::generate(plan, program::ProgramKind::train),
                            {.device_workspace_bytes = {0, 0}});
        runs.push_back(
            {set, std::vector<program::Measurement>(3, perfect_measurement(set, model, known))});
    }
    Profile const found =
        measured_profile(runs, model, {0, 1}, program::uniform_network(2, {0.1, 2e-3}));
    std::vector<program::Plan> plans{two_stages(model, 2), two_stages(model, 5),
                                     two_stages(model, 3)};
    std::swap(plans[2].chunks[0].group, plans[2].chunks[1].group);
    for (program::Plan const& plan : plans) {
        auto const expected = costs_of(known, plan, model);
        auto const costs = costs_of(found, plan, model);
        for (std::size_t r = 0; r < 2; ++r)
            for (std::size_t c = 0; c < 2; ++c)
                for (auto const kind :
                     {program::WorkKind::forward, program::WorkKind::backward_input,
                      program::WorkKind::backward_weight, program::WorkKind::backward})
                    EXPECT_NEAR(costs.chunks[r][c].of(kind), expected.chunks[r][c].of(kind),
                                1e-9 * expected.chunks[r][c].of(kind));
        EXPECT_NEAR(costs.update_seconds_per_element[1], 2e-4, 1e-12);
        EXPECT_NEAR(costs.measure_seconds_per_element[0], 1e-5, 1e-12);
    }
    for (program::Wire const& wire : found.network.wires) {
        EXPECT_NEAR(wire.latency_seconds, 0.5, 1e-9);
        EXPECT_NEAR(wire.seconds_per_byte, 2e-3, 1e-9);
    }
}

/// Kinds of work of rank 0 under 1F1B with two stages: the second forward and the last backward repeat.
TEST(Costs, MultiplyWhatRepeatsTheComputationBefore) {
    model::Model const model{small_config()};
    program::Plan const plan = two_stages(model, 3);
    auto const set =
        schedule::lower(plan, model, schedule::generate(plan, program::ProgramKind::train),
                        {.device_workspace_bytes = {0, 0}});
    Profile profile = known_profile();
    auto const plain = program::instruction_seconds(costs_of(profile, plan, model), set);
    profile.ranks[0].repeat = {.forward = 0.5, .backward = 0.75};
    profile.ranks[1].repeat = {.forward = 0.5, .backward = 0.75};
    auto const seconds = program::instruction_seconds(costs_of(profile, plan, model), set);
    for (std::size_t r = 0; r < 2; ++r) {
        int forwards = 0;
        int backwards = 0;
        auto const& list = set.programs[r].instructions;
        for (std::size_t i = 0; i < list.size(); ++i) {
            double factor = 1;
            if (std::holds_alternative<program::Forward>(list[i].operation))
                factor = r == 0 && ++forwards == 2 ? 0.5 : 1;
            if (std::holds_alternative<program::Backward>(list[i].operation))
                factor = r == 0 && ++backwards == 3 ? 0.75 : 1;
            EXPECT_DOUBLE_EQ(seconds[r][i], factor * plain[r][i]) << r << ' ' << i;
        }
    }
}

// Rank 1 repeats nothing under 1F1B and takes what rank 0 shows.
TEST(MeasuredProfile, FindsWhatRepetitionsSave) {
    model::Model const model{small_config()};
    Profile known = known_profile();
    for (RankProfile& rank : known.ranks) { // which are not told apart from the layers' seconds
        rank.boundary_seconds_per_byte = rank.instruction_seconds = 0;
        rank.repeat = {.forward = 0.5, .backward = 0.75};
    }
    program::Plan const plan = two_stages(model, 3);
    auto const set =
        schedule::lower(plan, model, schedule::generate(plan, program::ProgramKind::train),
                        {.device_workspace_bytes = {0, 0}});
    program::Measurement step = perfect_measurement(set, model, known);
    for (program::LayerSpent& layer : step.ranks[0].layers) { // one of three repeats
        layer.forward.seconds *= (0.5 + 2) / 3;
        layer.backward_input.seconds *= (0.75 + 2) / 3;
        layer.backward_weight.seconds *= (0.75 + 2) / 3;
    }
    Profile const found = measured_profile({{set, {step, step}}}, model, {0, 1}, known.network);
    for (std::size_t r = 0; r < 2; ++r) {
        EXPECT_NEAR(found.ranks[r].repeat.forward, std::sqrt(0.5), 1e-12);
        EXPECT_NEAR(found.ranks[r].repeat.backward, std::sqrt(0.75), 1e-12);
        EXPECT_EQ(found.ranks[r].repeat.backward_input, 1);
    }
    for (char const* const kind : {"embedding", "attention", "feed_forward"}) {
        EXPECT_NEAR(found.ranks[0].layers.at(kind).forward, known.ranks[0].layers.at(kind).forward,
                    1e-9);
        EXPECT_NEAR(found.ranks[0].layers.at(kind).backward,
                    known.ranks[0].layers.at(kind).backward, 1e-9);
    }
}

// The last weight half of rank 0 has an idle neighbour, the others have a busy one.
TEST(MeasuredProfile, FindsWhatNeighboursCost) {
    model::Model const model{small_config()};
    Profile known = known_profile();
    for (RankProfile& rank : known.ranks) {
        rank.boundary_seconds_per_byte = rank.instruction_seconds = 0;
        rank.contention = 0.25;
    }
    program::Plan plan = two_stages(model, 5);
    plan.batch_size = 16;
    plan.split_backward = true;
    auto const set =
        schedule::lower(plan, model, schedule::generate(plan, program::ProgramKind::train),
                        {.device_workspace_bytes = {0, 0}});
    program::Measurement step = perfect_measurement(set, model, known);
    step.timeline = schedule::simulate_contended(set, costs_of(known, plan, model)).timeline;
    std::vector<int> const one_node{3, 3};
    Profile const found =
        measured_profile({{set, {step, step, step}}}, model, one_node, known.network);
    for (RankProfile const& rank : found.ranks) {
        EXPECT_NEAR(rank.contention, 0.25, 0.02);
        EXPECT_EQ(rank.node, 3);
    }
    std::vector<int> const two_nodes{0, 1};
    EXPECT_EQ(measured_profile({{set, {step, step, step}}}, model, two_nodes, known.network)
                  .ranks[0]
                  .contention,
              0);
}

TEST(ProfileFile, IsReadBackEqual) {
    Profile profile = known_profile();
    profile.ranks[1].repeat = {0.875, 1.125, 0.5, 0.75};
    profile.ranks[1].contention = 0.125;
    profile.ranks[1].node = 5;
    std::string const text = print_profile(profile);
    Profile const read = parse_profile(text, "profile.json");
    EXPECT_EQ(print_profile(read), text);
    EXPECT_EQ(read.ranks[1].layers.at("head").backward_weight,
              profile.ranks[1].layers.at("head").backward_weight);
    EXPECT_EQ(read.network.routes, profile.network.routes);
    EXPECT_FALSE(read.ranks[0].copies.has_value());
    EXPECT_EQ(read.ranks[1].copies, profile.ranks[1].copies);
    EXPECT_EQ(read.ranks[0].repeat, program::WorkFactors{});
    EXPECT_EQ(read.ranks[1].repeat, profile.ranks[1].repeat);
    EXPECT_EQ(read.ranks[1].contention, 0.125);
    EXPECT_EQ(read.ranks[1].node, 5);
    EXPECT_EQ(read.source, "known");
}

std::string refusal(std::string const& text) {
    try {
        parse_profile(text, "p.json");
    } catch (core::ConfigError const& error) {
        return error.what();
    }
    return "accepted";
}

TEST(ProfileFile, IsRefusedWithTheReason) {
    std::string const good = print_profile(known_profile());
    auto const with = [&](std::string const& from, std::string const& to) {
        std::string text = good;
        text.replace(text.find(from), from.size(), to);
        return refusal(text);
    };
    EXPECT_EQ(refusal(good), "accepted");
    EXPECT_NE(refusal("{").find("p.json: this is not JSON"), std::string::npos);
    EXPECT_NE(refusal("[]").find("'format' is missing"), std::string::npos);
    EXPECT_NE(with("evener profile 1", "evener profile 9").find("its format is"),
              std::string::npos);
    EXPECT_NE(with("0.125", "-0.125").find("'instruction_seconds' is -0.125"), std::string::npos);
    EXPECT_NE(with("\"out\"", "\"ou\"").find("'out' is missing"), std::string::npos);
    EXPECT_NE(with("\"routes\"", "\"routs\"").find("'routes' is missing"), std::string::npos);
    EXPECT_NE(with("\"ranks\"", "\"rinks\"").find("'ranks' is missing"), std::string::npos);
}

TEST(ProfileFile, MustFitModelAndRanks) {
    model::Model const model{small_config()};
    Profile profile = known_profile();
    EXPECT_EQ(profile_problem(profile, model, 2), "");
    EXPECT_EQ(profile_problem(profile, model, 3), "it is for 2 ranks (the job has 3)");
    profile.ranks[1].layers.erase("head");
    EXPECT_EQ(profile_problem(profile, model, 2), "it has no seconds of head layers on rank 1");
}

} // namespace
} // namespace evener::planner
