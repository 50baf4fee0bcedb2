// SPDX-License-Identifier: Apache-2.0
#include "model/chunk_layout.hpp"

#include "model/builder.hpp"

#include <algorithm>

namespace evener::model {

namespace {

std::vector<Phase> phases_of(ChunkPass pass) {
    switch (pass) {
    case ChunkPass::forward:
    case ChunkPass::forward_dropping:
        return {Phase::forward};
    case ChunkPass::evaluate:
        return {Phase::evaluate};
    case ChunkPass::backward:
        return {Phase::backward_input, Phase::backward_weight};
    case ChunkPass::backward_input:
        return {Phase::backward_input};
    case ChunkPass::backward_weight:
        return {Phase::backward_weight};
    }
    return {};
}

Workspace workspace_of(ChunkLayout const& layout, ChunkPass pass, std::int64_t boundary,
                       std::int64_t row) {
    if (pass == ChunkPass::forward_dropping && !layout.has_output)
        return {}; // nobody needs what it would compute
    bool const in_turns = pass == ChunkPass::evaluate || pass == ChunkPass::forward_dropping;
    std::int64_t area = 0;
    std::int64_t scratch = 0;
    for (LayerOperations const& layer : layout.operations) {
        if (in_turns)
            area = std::max(area, layer.kept_bytes);
        if (pass == ChunkPass::backward)
            area = std::max(area, layer.kept_for_weights_bytes);
        for (Phase const phase : phases_of(pass))
            scratch = std::max(scratch, layer.scratch_of(phase));
        if (pass == ChunkPass::evaluate && layer.scratch_of(Phase::next_token) > 0)
            scratch = std::max(scratch, layer.scratch_of(Phase::next_token) + row);
    }
    bool const forwards = pass == ChunkPass::forward || in_turns;
    bool const has_boundary = forwards                             ? layout.has_output
                              : pass == ChunkPass::backward_weight ? false
                                                                   : layout.has_input;
    Workspace workspace;
    workspace.area[1] = area;
    workspace.boundary = 2 * area;
    workspace.scratch = workspace.boundary + (has_boundary ? boundary : 0);
    workspace.bytes = workspace.scratch + scratch;
    return workspace;
}

} // namespace

std::int64_t boundary_bytes(ModelConfig const& config, std::int64_t sequences, core::DType type) {
    return sequences * config.sequence_length * config.hidden_size * core::bytes_of(type);
}

ChunkLayout chunk_layout(Model const& model, core::Range layers, std::int64_t sequences,
                         core::DType compute) {
    ChunkLayout layout;
    layout.layers = layers;
    layout.sequences = sequences;
    layout.compute = compute;
    if (layers.empty())
        return layout;
    layout.has_input = model.layer(core::LayerId{layers.begin}).has_input();
    layout.has_output = model.layer(core::LayerId{layers.end - 1}).has_output();
    for (std::int64_t l = layers.begin; l < layers.end; ++l) {
        LayerOperations operations = model.layer(core::LayerId{l}).operations(sequences, compute);
        layout.kept.push_back(layout.kept_bytes);
        layout.kept_for_weights.push_back(layout.kept_for_weights_bytes);
        layout.kept_bytes += operations.kept_bytes;
        layout.kept_for_weights_bytes += operations.kept_for_weights_bytes;
        layout.operations.push_back(std::move(operations));
    }
    std::int64_t const boundary =
        core::round_up(boundary_bytes(model.config(), sequences, compute), tensor_alignment);
    // The row of which the head gives logits stands behind the head's scratch.
    std::int64_t const row = model.config().hidden_size * core::bytes_of(compute);
    for (int pass = 0; pass < chunk_pass_count; ++pass)
        layout.workspace[pass] = workspace_of(layout, static_cast<ChunkPass>(pass), boundary, row);
    return layout;
}

bool gradients_in_backward_input(Model const& model, core::Range layers) {
    for (std::int64_t l = layers.begin; l < layers.end; ++l)
        if (model.layer(core::LayerId{l}).gradients_in_backward_input())
            return true;
    return false;
}

} // namespace evener::model
