// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the ranks' layers cost in time, by kind of layer and not by plan, so that from one
// calibration run (or from FLOPs and matrix rates before any) the cost of every other plan of the
// same model follows. Made by `measured_profile` from steps under some plan, or by
// `estimated_profile`.

#include "program/costs.hpp"
#include "program/measurement.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace evener::planner {

/// Seconds per sequence. The halves of a backward are slower than the whole: what leads from one to
/// the other goes through memory.
struct LayerSeconds {
    double forward = 0;
    double backward_input = 0;  ///< in an instruction of its own
    double backward_weight = 0; ///< likewise
    double backward = 0;        ///< both, fused

    double sum() const { return forward + backward; }
};

struct RankProfile {
    std::map<std::string, LayerSeconds> layers; ///< by model::Layer::kind
    program::WorkFactors repeat;          ///< what the layers' seconds are for is no repetition
    double contention = 0;                ///< they are for a rank alone; see program::Costs
    int node = 0;                         ///< any number, the same for ranks of one node
    double boundary_seconds_per_byte = 0; ///< copies between a chunk and its messages
    double instruction_seconds = 0;       ///< of any computation besides its layers and copies
    double measure_seconds_per_element = 0;
    double update_seconds_per_element = 0;
    /// Of a rank whose device has a memory of its own.
    std::optional<program::CopyRates> copies = {};
};

struct Profile {
    std::vector<RankProfile> ranks;
    program::Network network;
    /// What the seconds depend on besides the ranks, by name; empty = not known. See model_facts.
    std::map<std::string, std::string> model;
    std::string source; ///< for people: "5 steps under 1f1b", "FLOPs over matrix rates"
};

/// The model's widths and its sequence length: what the seconds of a layer depend on.
std::map<std::string, std::string> model_facts(model::Model const& model);

/// Forward takes a layer's FLOPs over `gflops[rank]` (1e9 per second), each backward half the same.
/// Copies, updates and messages are free.
Profile estimated_profile(model::Model const& model, std::vector<double> const& gflops);

/// Steps of one set of programs.
struct CalibrationRun {
    program::ProgramSet set;
    std::vector<program::Measurement> steps;
};

/// From runs of one plan, with the backward whole or in halves; what only one of the two would show
/// is taken from the other where there is no such run. Each figure is the median over the steps of
/// the mean within the step. A rank that had no layer of a kind gets another rank's seconds, scaled
/// by how the two compare in the kinds that both had; one that repeated no computation (see
/// program::repeats), or whose neighbours were always busy or never, gets the others' factors.
/// `nodes` names each rank's node. `network` gives latencies and bandwidths of
/// all pairs; those of pairs that had messages are adapted to what these showed, from the end of
/// the computation that made a message to the start of one that did nothing but wait for it.
Profile measured_profile(std::vector<CalibrationRun> const& runs, model::Model const& model,
                         std::vector<int> const& nodes, program::Network network);

/// What the plan costs. The plan's ranks must be those of the profile.
program::Costs costs_of(Profile const& profile, program::Plan const& plan,
                        model::Model const& model);

} // namespace evener::planner
