// SPDX-License-Identifier: Apache-2.0
#pragma once

// Small operations on vectors and matrices.

#include "kernels/types.hpp"

namespace evener::kernels {

/// dst[i] = src[i], rounded to nearest even when dst is narrower.
struct ConvertShape {
    std::int64_t elements = 0;
    Element src = Element::float32;
    Element dst = Element::float32;
};
struct ConvertOperand {
    enum : int { src, dst, count };
};

/// dst[i] = 0 for `bytes` bytes.
struct ClearShape {
    std::int64_t bytes = 0;
};
struct ClearOperand {
    enum : int { dst, count };
};

/// dst[c] += sum over r of src[r, c]; src T, dst float32 (bias gradients).
struct ColumnSumsShape {
    std::int64_t rows = 0;
    std::int64_t cols = 0;
    Element type = Element::float32;
};
struct ColumnSumsOperand {
    enum : int { src, dst, count };
};

/// dst[s] = sum of src[s * length .. (s + 1) * length), src float32, dst double: the losses of
/// sequences from those of their tokens.
struct SegmentSumsShape {
    std::int64_t segments = 0;
    std::int64_t length = 0;
};
struct SegmentSumsOperand {
    enum : int { src, dst, count };
};

/// *dst = sum of src[i]^2, src float32, dst one double. Added in double over blocks whose size does
/// not depend on the number of threads, so the result does not either. Not finite if any src is
/// not.
struct SumSquaresShape {
    std::int64_t elements = 0;
};
struct SumSquaresOperand {
    enum : int { src, dst, count };
};

} // namespace evener::kernels
