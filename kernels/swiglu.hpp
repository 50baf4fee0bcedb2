// SPDX-License-Identifier: Apache-2.0
#pragma once

// Gated linear unit with SiLU (Shazeer 2020). A row of gate_up holds gate then up, [2 * cols]:
//   y = silu(gate) * up,  silu(g) = g * sigmoid(g)
// Backward: d_up = dy * silu(gate),  d_gate = dy * up * sigmoid(g) * (1 + g * (1 - sigmoid(g)))

#include "kernels/types.hpp"

namespace evener::kernels {

struct SwigluShape {
    std::int64_t rows = 0;
    std::int64_t cols = 0; ///< of y; gate_up has twice as many
    Element type = Element::float32;
};

struct SwigluOperand {
    enum : int { gate_up, y, count };
};
struct SwigluBackwardOperand { // d_gate_up may be gate_up itself
    enum : int { gate_up, dy, d_gate_up, count };
};

} // namespace evener::kernels
