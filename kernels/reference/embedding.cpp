// SPDX-License-Identifier: Apache-2.0

// Rows of a table by token, and the sum of row gradients back into it.

#include "kernels/reference/operations.hpp"

#include <vector>

namespace evener::kernels::reference {

template <class T>
void embedding(EmbeddingShape const& shape, std::int32_t const* tokens, T const* table, T* y) {
    for (std::int64_t r = 0; r < shape.rows; ++r)
        for (std::int64_t c = 0; c < shape.cols; ++c)
            y[r * shape.cols + c] = table[tokens[r] * shape.cols + c];
}

template <class T>
void embedding_gradient(EmbeddingShape const& shape, std::int32_t const* tokens, T const* dy,
                        Wide<T>* dtable) {
    std::vector<double> column(static_cast<std::size_t>(shape.vocabulary));
    for (std::int64_t c = 0; c < shape.cols; ++c) {
        for (std::int64_t v = 0; v < shape.vocabulary; ++v)
            column[v] = dtable[v * shape.cols + c];
        for (std::int64_t r = 0; r < shape.rows; ++r)
            column[tokens[r]] += load(dy[r * shape.cols + c]);
        for (std::int64_t v = 0; v < shape.vocabulary; ++v)
            dtable[v * shape.cols + c] = static_cast<Wide<T>>(column[v]);
    }
}

template void embedding(EmbeddingShape const&, std::int32_t const*, float const*, float*);
template void embedding(EmbeddingShape const&, std::int32_t const*, BFloat16 const*, BFloat16*);
template void embedding(EmbeddingShape const&, std::int32_t const*, double const*, double*);
template void embedding_gradient(EmbeddingShape const&, std::int32_t const*, float const*, float*);
template void embedding_gradient(EmbeddingShape const&, std::int32_t const*, BFloat16 const*,
                                 float*);
template void embedding_gradient(EmbeddingShape const&, std::int32_t const*, double const*,
                                 double*);

} // namespace evener::kernels::reference
