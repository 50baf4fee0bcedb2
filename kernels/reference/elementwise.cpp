// SPDX-License-Identifier: Apache-2.0

// Conversions and sums of vectors and matrices.

#include "kernels/reference/operations.hpp"

namespace evener::kernels::reference {

template <class S, class D>
void convert(ConvertShape const& shape, S const* src, D* dst) {
    for (std::int64_t i = 0; i < shape.elements; ++i)
        dst[i] = round_to<D>(load(src[i]));
}

void clear(ClearShape const& shape, std::byte* dst) {
    for (std::int64_t i = 0; i < shape.bytes; ++i)
        dst[i] = std::byte{0};
}

template <class T>
void column_sums(ColumnSumsShape const& shape, T const* src, Wide<T>* dst) {
    for (std::int64_t c = 0; c < shape.cols; ++c) {
        double sum = dst[c];
        for (std::int64_t r = 0; r < shape.rows; ++r)
            sum += load(src[r * shape.cols + c]);
        dst[c] = static_cast<Wide<T>>(sum);
    }
}

void segment_sums(SegmentSumsShape const& shape, float const* src, double* dst) {
    for (std::int64_t s = 0; s < shape.segments; ++s) {
        dst[s] = 0;
        for (std::int64_t i = 0; i < shape.length; ++i)
            dst[s] += src[s * shape.length + i];
    }
}

void sum_squares(SumSquaresShape const& shape, float const* src, double* dst) {
    *dst = 0;
    for (std::int64_t i = 0; i < shape.elements; ++i)
        *dst += load(src[i]) * load(src[i]);
}

template void convert(ConvertShape const&, float const*, float*);
template void convert(ConvertShape const&, float const*, BFloat16*);
template void convert(ConvertShape const&, BFloat16 const*, float*);
template void convert(ConvertShape const&, BFloat16 const*, BFloat16*);
template void column_sums(ColumnSumsShape const&, float const*, float*);
template void column_sums(ColumnSumsShape const&, BFloat16 const*, float*);
template void column_sums(ColumnSumsShape const&, double const*, double*);

} // namespace evener::kernels::reference
