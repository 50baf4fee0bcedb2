// SPDX-License-Identifier: Apache-2.0

// Register-blocked products: rows x 2 vectors of accumulators for the vector engines (enough of
// them to hide the latency of a multiply-add), 2 x 2 tiles of 16 x 16 for AMX.

#include "kernels/host/block_products.hpp"

#include "kernels/host/simd.hpp"

#if defined(__AVX512F__)
#include <immintrin.h>
#endif

namespace evener::kernels::host {

void FloatBlocks::multiply(BlockShape shape, float const* a, std::int64_t a_stride, float const* b,
                           float* c, Into into) {
    constexpr int rows = lanes == 16 ? 8 : 4; // registers: 32 or 16
    for (std::int64_t j = 0; j < shape.n; j += 2 * lanes) {
        for (std::int64_t i = 0; i < shape.m; i += rows) {
            Floats sums[rows][2] = {};
            float* const out = c + i * shape.n + j;
            if (into == Into::add) {
#pragma GCC unroll 8
                for (int r = 0; r < rows; ++r) {
                    sums[r][0] = load(out + r * shape.n);
                    sums[r][1] = load(out + r * shape.n + lanes);
                }
            }
            float const* const left = a + i * a_stride;
            for (std::int64_t l = 0; l < shape.k; ++l) {
                Floats const b0 = load(b + l * shape.n + j);
                Floats const b1 = load(b + l * shape.n + j + lanes);
#pragma GCC unroll 8
                for (int r = 0; r < rows; ++r) {
                    Floats const value = broadcast(left[r * a_stride + l]);
                    sums[r][0] += value * b0;
                    sums[r][1] += value * b1;
                }
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                store(out + r * shape.n, sums[r][0]);
                store(out + r * shape.n + lanes, sums[r][1]);
            }
        }
    }
}

#if defined(__AVX512F__)

[[gnu::target("avx512bf16")]] void DotBlocks::multiply(BlockShape shape, BFloat16 const* a,
                                                       std::int64_t a_stride, BFloat16 const* b,
                                                       float* c, Into into) {
    constexpr int rows = 8;
    auto const pair = [](BFloat16 const* at) __attribute__((target("avx512bf16"), always_inline)) {
        std::int32_t bits;
        std::memcpy(&bits, at, sizeof bits);
        return (__m512bh)_mm512_set1_epi32(bits);
    };
    for (std::int64_t j = 0; j < shape.n; j += 32) {
        for (std::int64_t i = 0; i < shape.m; i += rows) {
            __m512 sums[rows][2];
            float* const out = c + i * shape.n + j;
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                bool const add = into == Into::add;
                sums[r][0] = add ? _mm512_loadu_ps(out + r * shape.n) : _mm512_setzero_ps();
                sums[r][1] = add ? _mm512_loadu_ps(out + r * shape.n + 16) : _mm512_setzero_ps();
            }
            BFloat16 const* const left = a + i * a_stride;
            for (std::int64_t l = 0; l < shape.k; l += 2) {
                BFloat16 const* const right = b + l * shape.n + 2 * j;
                auto const b0 = (__m512bh)_mm512_loadu_si512(right);
                auto const b1 = (__m512bh)_mm512_loadu_si512(right + 32);
#pragma GCC unroll 8
                for (int r = 0; r < rows; ++r) {
                    auto const value = pair(left + r * a_stride + l);
                    sums[r][0] = _mm512_dpbf16_ps(sums[r][0], value, b0);
                    sums[r][1] = _mm512_dpbf16_ps(sums[r][1], value, b1);
                }
            }
#pragma GCC unroll 8
            for (int r = 0; r < rows; ++r) {
                _mm512_storeu_ps(out + r * shape.n, sums[r][0]);
                _mm512_storeu_ps(out + r * shape.n + 16, sums[r][1]);
            }
        }
    }
}

namespace {

/// Palette 1: eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfiguration {
    std::uint8_t palette = 1;
    std::uint8_t start_row = 0;
    std::uint8_t reserved[14] = {};
    std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
    std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// Not on the stack: the intrinsic tells the compiler of 8 bytes only, so it would drop the others.
constinit TileConfiguration const configuration;

[[gnu::target("amx-tile")]] void configure_tiles() {
    _tile_loadconfig(&configuration);
}
[[gnu::target("amx-tile")]] void release_tiles() {
    _tile_release();
}

} // namespace

AmxBlocks::Session::Session() {
    configure_tiles();
}
AmxBlocks::Session::~Session() {
    release_tiles();
}

// Tiles 0..3 are the sums, 4 and 5 rows of a, 6 and 7 columns of b.
[[gnu::target("amx-tile,amx-bf16")]] void AmxBlocks::multiply(BlockShape shape, BFloat16 const* a,
                                                              std::int64_t a_stride,
                                                              BFloat16 const* b, float* c,
                                                              Into into) {
    std::int64_t const a_bytes = a_stride * 2;
    std::int64_t const n_bytes = shape.n * 4; // a row of c, or a pair of rows of b
    for (std::int64_t j = 0; j < shape.n; j += 32) {
        for (std::int64_t i = 0; i < shape.m; i += 32) {
            float* const top = c + i * shape.n + j;
            float* const bottom = top + 16 * shape.n;
            if (into == Into::add) {
                _tile_loadd(0, top, n_bytes);
                _tile_loadd(1, top + 16, n_bytes);
                _tile_loadd(2, bottom, n_bytes);
                _tile_loadd(3, bottom + 16, n_bytes);
            } else {
                _tile_zero(0);
                _tile_zero(1);
                _tile_zero(2);
                _tile_zero(3);
            }
            for (std::int64_t l = 0; l < shape.k; l += 32) {
                BFloat16 const* const left = a + i * a_stride + l;
                BFloat16 const* const right = b + l * shape.n + 2 * j;
                _tile_loadd(4, left, a_bytes);
                _tile_loadd(6, right, n_bytes);
                _tile_loadd(7, right + 32, n_bytes);
                _tile_dpbf16ps(0, 4, 6);
                _tile_dpbf16ps(1, 4, 7);
                _tile_loadd(5, left + 16 * a_stride, a_bytes);
                _tile_dpbf16ps(2, 5, 6);
                _tile_dpbf16ps(3, 5, 7);
            }
            _tile_stored(0, top, n_bytes);
            _tile_stored(1, top + 16, n_bytes);
            _tile_stored(2, bottom, n_bytes);
            _tile_stored(3, bottom + 16, n_bytes);
        }
    }
}

#endif

} // namespace evener::kernels::host
