// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the ranks' layers cost in time, by kind of layer and not by plan, so that from one
// calibration run (or from FLOPs and matrix rates before any) the cost of every other plan of the
// same model follows. Made by `measured_profile` from steps under some plan, or by
// `estimated_profile`.

#include "program/costs.hpp"
#include "program/measurement.hpp"

#include <map>
#include <string>
#include <vector>

namespace evener::planner {

/// Seconds per sequence.
struct LayerSeconds {
    double forward = 0;
    double backward_input = 0;
    double backward_weight = 0;

    double sum() const { return forward + backward_input + backward_weight; }
};

struct RankProfile {
    std::map<std::string, LayerSeconds> layers; ///< by model::Layer::kind
    double boundary_seconds_per_byte = 0;       ///< copies between a chunk and its messages
    double instruction_seconds = 0; ///< of any computation besides its layers and copies
    double measure_seconds_per_element = 0;
    double update_seconds_per_element = 0;
};

struct Profile {
    std::vector<RankProfile> ranks;
    program::Network network;
    std::string source; ///< for people: "5 steps under 1f1b", "FLOPs over matrix rates"
};

/// Forward takes a layer's FLOPs over `gflops[rank]` (1e9 per second), each backward half the same.
/// Copies, updates and messages are free.
Profile estimated_profile(model::Model const& model, std::vector<double> const& gflops);

/// From steps of one set of programs. Each figure is the median over the steps of the mean within
/// the step. A rank that had no layer of a kind gets another rank's seconds, scaled by how the two
/// compare in the kinds that both had. `network` gives latencies and bandwidths of all pairs; pairs
/// that had messages in the run keep the latency and get the bandwidth that these showed.
Profile measured_profile(program::ProgramSet const& set, model::Model const& model,
                         std::vector<program::Measurement> const& steps, program::Network network);

/// What the plan costs. The plan's ranks must be those of the profile.
program::Costs costs_of(Profile const& profile, program::Plan const& plan,
                        model::Model const& model);

} // namespace evener::planner
