// SPDX-License-Identifier: Apache-2.0
#pragma once

// Sums over the rows of a matrix, column by column: rows are cut into blocks of a fixed size, each
// block is added in order of its rows, then the blocks in order. So the result does not depend on
// the number of threads.

#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"

#include <cstddef>

namespace evener::kernels::host {

inline constexpr std::int64_t rows_per_block = 64;

inline std::int64_t row_blocks(std::int64_t rows) {
    return (rows + rows_per_block - 1) / rows_per_block;
}
/// Workspace of add_rows: one partial sum per block and column.
inline std::int64_t row_blocks_bytes(std::int64_t rows, std::int64_t cols) {
    return row_blocks(rows) * cols * 4;
}

struct RowSums {
    std::int64_t rows;
    std::int64_t cols;
    int threads;
};

/// dst[c] += sum over r of term(r, c, Whole or Part), where a term covers the columns from c on.
template <class Term>
void add_rows(RowSums sums, Term const& term, float* dst, std::byte* workspace) {
    auto* const partial = reinterpret_cast<float*>(workspace);
    std::int64_t const blocks = row_blocks(sums.rows);
    std::int64_t const grain = row_grain(sums.cols * rows_per_block);
    over_ranges(sums.threads, blocks, grain, [&](auto begin, auto end) {
        for (std::int64_t block = begin; block < end; ++block) {
            std::int64_t const first = block * rows_per_block;
            std::int64_t const last = std::min(first + rows_per_block, sums.rows);
            float* const out = partial + block * sums.cols;
            over(0, sums.cols,
                 [&](auto c, auto part) { store(out + c, term(first, c, part), part); });
            // Two rows at a time halve the traffic of the running sums.
            std::int64_t r = first + 1;
            for (; r + 2 <= last; r += 2)
                over(0, sums.cols, [&](auto c, auto part) {
                    Floats const pair = term(r, c, part) + term(r + 1, c, part);
                    store(out + c, load(out + c, part) + pair, part);
                });
            if (r < last)
                over(0, sums.cols, [&](auto c, auto part) {
                    store(out + c, load(out + c, part) + term(r, c, part), part);
                });
        }
    });
    over_ranges(sums.threads, sums.cols, row_grain(blocks), [&](auto begin, auto end) {
        for (std::int64_t block = 0; block < blocks; ++block)
            over(begin, end, [&](auto c, auto part) {
                store(dst + c, load(dst + c, part) + load(partial + block * sums.cols + c, part),
                      part);
            });
    });
}

} // namespace evener::kernels::host
