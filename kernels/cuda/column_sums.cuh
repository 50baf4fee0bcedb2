// SPDX-License-Identifier: Apache-2.0
#pragma once

// dst[c] += sum over r of term(r, c), in an order that the sizes alone decide: rows are cut into at
// most 128 parts, a block adds up one part of a strip of columns, then each column's parts are added
// one after the other. Reads what term reads, and writes and reads 4 bytes per column and part: at
// 128 rows or more a part that is at most 2 % of float32 terms.

#include "kernels/cuda/access.cuh"
#include "kernels/cuda/operation.hpp"

#include <algorithm>

namespace evener::kernels::cuda {

struct ColumnsShape {
    std::int64_t rows;
    std::int64_t cols;
};

inline constexpr int strip_lanes = 32; ///< threads of a block side by side
inline constexpr int part_lanes = 8;   ///< and one above the other

inline std::int64_t rows_of_part(std::int64_t rows) {
    return std::max<std::int64_t>(128, div_up(div_up(rows, 128), part_lanes) * part_lanes);
}

inline std::int64_t add_rows_bytes(ColumnsShape const& s) {
    std::int64_t const parts = div_up(s.rows, rows_of_part(s.rows));
    return parts > 1 ? parts * s.cols * 4 : 0;
}

/// sums[part, c] = the part's sum, or += it.
template <class A, class Term>
__global__ void __launch_bounds__(strip_lanes* part_lanes)
    add_part_kernel(ColumnsShape s, std::int64_t part_rows, Term term, float* sums, bool add) {
    EVENER_SHARED(float, partial, [part_lanes][strip_lanes * A::size]);
    std::int64_t const strip = static_cast<std::int64_t>(blockIdx.x) * strip_lanes * A::size;
    std::int64_t const c = strip + static_cast<std::int64_t>(threadIdx.x) * A::size;
    std::int64_t const begin = static_cast<std::int64_t>(blockIdx.y) * part_rows;
    std::int64_t const end = min(begin + part_rows, s.rows);
    float sum[A::size] = {};
    if (c < s.cols) {
        for (std::int64_t r = begin + threadIdx.y; r < end; r += part_lanes) {
            float value[A::size];
            term.template read<A>(r, c, value);
#pragma unroll
            for (int i = 0; i < A::size; ++i)
                sum[i] += value[i];
        }
    }
#pragma unroll
    for (int i = 0; i < A::size; ++i)
        partial[threadIdx.y][threadIdx.x * A::size + i] = sum[i];
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.y * strip_lanes + threadIdx.x);
         i < strip_lanes * A::size && strip + i < s.cols; i += strip_lanes * part_lanes) {
        float total = partial[0][i];
        for (int lane = 1; lane < part_lanes; ++lane)
            total += partial[lane][i];
        float* const at = sums + static_cast<std::int64_t>(blockIdx.y) * s.cols + strip + i;
        *at = add ? *at + total : total;
    }
}

/// Enqueues dst[c] += sum over parts of sums[part, c].
void add_parts(std::int64_t cols, std::int64_t parts, float const* sums, float* dst,
               cudaStream_t stream);

template <class A, class Term>
void add_rows(ColumnsShape const& s, Term const& term, float* dst, std::byte* workspace,
              cudaStream_t stream) {
    if (s.rows == 0 || s.cols == 0)
        return;
    std::int64_t const part_rows = rows_of_part(s.rows);
    std::int64_t const parts = div_up(s.rows, part_rows);
    dim3 const grid(static_cast<unsigned>(div_up(s.cols, strip_lanes * A::size)),
                    static_cast<unsigned>(parts));
    auto* const sums = parts > 1 ? reinterpret_cast<float*>(workspace) : dst;
    EVENER_LAUNCH((add_part_kernel<A, Term>), grid, dim3(strip_lanes, part_lanes), 0, stream, s,
                  part_rows, term, sums, parts == 1);
    if (parts > 1)
        add_parts(s.cols, parts, sums, dst, stream);
}

} // namespace evener::kernels::cuda
