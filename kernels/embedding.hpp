// SPDX-License-Identifier: Apache-2.0
#pragma once

// y[r, :] = table[token[r], :];  backward: dtable[token[r], :] += dy[r, :], rows added in order of
// r for each token. Tokens are int32 in [0, vocabulary); the caller has checked them.

#include "kernels/types.hpp"

namespace evener::kernels {

struct EmbeddingShape {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    std::int64_t vocabulary = 0;
    Element type = Element::float32; ///< of table, y and dy; dtable is float32
};

struct EmbeddingOperand {
    enum : int { tokens, table, y, count };
};
struct EmbeddingGradientOperand {
    enum : int { tokens, dy, dtable, count };
};

} // namespace evener::kernels
