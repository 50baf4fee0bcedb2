// SPDX-License-Identifier: Apache-2.0
#pragma once

// Products of small blocks that one thread keeps in its cache, for attention:
//   c[m, n] (+)= a[m, k] b[k, n]
// a is row-major with `a_stride` elements from row to row; c is dense float32. b is a panel:
// `group` consecutive rows are interleaved, [k / group, n, group], which is how AVX-512 and AMX
// read bfloat16 (group 2); float32 has group 1, a plain matrix. m, n and k are multiples of 32, k
// may be 0.
//
// An engine is a type with the element it multiplies, its group, and a Session that must live
// around its products on each thread.

#include "kernels/bfloat16.hpp"

namespace evener::kernels::host {

struct BlockShape {
    std::int64_t m;
    std::int64_t n;
    std::int64_t k;
};

enum class Into { overwrite, add };

struct FloatBlocks {
    using Element = float;
    static constexpr std::int64_t group = 1;
    struct Session {};
    static void multiply(BlockShape shape, float const* a, std::int64_t a_stride, float const* b,
                         float* c, Into into);
};

#if defined(__AVX512F__)

/// AVX512_BF16: a dot product of pairs per lane. Only where oneDNN reports that instruction set.
struct DotBlocks {
    using Element = BFloat16;
    static constexpr std::int64_t group = 2;
    struct Session {};
    static void multiply(BlockShape shape, BFloat16 const* a, std::int64_t a_stride,
                         BFloat16 const* b, float* c, Into into);
};

/// AMX_BF16: tiles of 16 x 32. Only where oneDNN reports that instruction set: it asks the kernel
/// for the permission that the tile registers need.
struct AmxBlocks {
    using Element = BFloat16;
    static constexpr std::int64_t group = 2;
    struct Session { ///< owns this thread's tile configuration
        Session();
        ~Session();
        Session(Session const&) = delete;
        Session& operator=(Session const&) = delete;
    };
    static void multiply(BlockShape shape, BFloat16 const* a, std::int64_t a_stride,
                         BFloat16 const* b, float* c, Into into);
};

#endif

} // namespace evener::kernels::host
