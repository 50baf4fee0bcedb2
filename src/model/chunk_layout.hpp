// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the tensors of a run of layers (a chunk) lie inside the buffers of a program: the kept
// buffers of a microbatch and the workspace of one instruction. Lowering takes the sizes from here
// and the executor the offsets, so the two cannot disagree.
//
// Inside a chunk each layer writes its output straight into the input of the next: the first tensor
// of the next layer's kept area; likewise gradients into the kept_for_weights area of the layer
// before. Where nothing has to outlive the instruction (evaluation; a Forward that is recomputed;
// fused Backward) two areas in the workspace take turns: layer l uses area l mod 2.

#include "model/model.hpp"

#include <vector>

namespace evener::model {

/// What one instruction computes on a chunk.
enum class ChunkPass : std::uint8_t {
    forward,
    evaluate,
    backward, ///< BackwardInput and BackwardWeight of each layer in turn
    backward_input,
    backward_weight,
    forward_dropping, ///< Forward that keeps nothing; of a chunk without output it computes nothing
};
inline constexpr int chunk_pass_count = 6;

/// Offsets inside the workspace; the device's own workspace follows at `bytes`.
struct Workspace {
    std::int64_t area[2] = {}; ///< the two turns of kept (forwards) or kept_for_weights (backward)
    std::int64_t boundary = 0; ///< last output, or first input gradient: [rows, hidden]
    std::int64_t scratch = 0;
    std::int64_t bytes = 0;
};

struct ChunkLayout {
    core::Range layers;
    std::int64_t sequences = 0;
    core::DType compute = core::DType::float32;
    bool has_input = false;  ///< needs the hidden states of the layer before
    bool has_output = false; ///< gives hidden states to the layer after

    std::vector<LayerOperations> operations; ///< per layer
    std::vector<std::int64_t> kept;          ///< per layer, offset in the kept buffer
    std::vector<std::int64_t> kept_for_weights;
    std::int64_t kept_bytes = 0;
    std::int64_t kept_for_weights_bytes = 0;
    Workspace workspace[chunk_pass_count];

    Workspace const& of(ChunkPass pass) const { return workspace[static_cast<std::size_t>(pass)]; }
};

ChunkLayout chunk_layout(Model const& model, core::Range layers, std::int64_t sequences,
                         core::DType compute);

/// Bytes of the hidden states of `sequences` sequences between two layers.
std::int64_t boundary_bytes(ModelConfig const& config, std::int64_t sequences, core::DType type);

/// Whether any layer of the range accumulates parameter gradients already in BackwardInput.
bool gradients_in_backward_input(Model const& model, core::Range layers);

} // namespace evener::model
