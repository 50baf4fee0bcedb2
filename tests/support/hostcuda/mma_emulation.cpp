// SPDX-License-Identifier: Apache-2.0

#include "mma_emulation.hpp"

#include <bit>
#include <cstring>

namespace evener::hostcuda {
namespace {

struct MmaInput {
    std::uint32_t const* a;
    std::uint32_t const* b;
    float const* c;
};

void expect_whole_warp(unsigned active, char const* operation) {
    if (active != all_lanes)
        fail(std::string{operation} + " executed by a partial warp");
}

/// The two bfloat16 of a register.
float low(std::uint32_t pair) {
    return std::bit_cast<float>(pair << 16);
}
float high(std::uint32_t pair) {
    return std::bit_cast<float>(pair & 0xffff0000u);
}

void resolve_mma(unsigned active, void** in, void** out) {
    expect_whole_warp(active, "mma");
    float a[16][16];
    float b[16][8];
    for (unsigned lane = 0; lane < warp_size; ++lane) {
        auto const& own = *static_cast<MmaInput const*>(in[lane]);
        unsigned const row = lane / 4;
        unsigned const column = lane % 4 * 2;
        for (unsigned i = 0; i < 4; ++i) {
            float* const pair = &a[row + i % 2 * 8][column + i / 2 * 8];
            pair[0] = low(own.a[i]);
            pair[1] = high(own.a[i]);
        }
        for (unsigned i = 0; i < 2; ++i) {
            b[column + i * 8][row] = low(own.b[i]);
            b[column + i * 8 + 1][row] = high(own.b[i]);
        }
    }
    float d[16][8] = {};
    for (unsigned i = 0; i < 16; ++i)
        for (unsigned k = 0; k < 16; ++k)
            for (unsigned j = 0; j < 8; ++j)
                d[i][j] += a[i][k] * b[k][j];
    for (unsigned lane = 0; lane < warp_size; ++lane) {
        auto const& own = *static_cast<MmaInput const*>(in[lane]);
        auto* const result = static_cast<float*>(out[lane]);
        unsigned const row = lane / 4;
        unsigned const column = lane % 4 * 2;
        for (unsigned i = 0; i < 4; ++i)
            result[i] = own.c[i] + d[row + i / 2 * 8][column + i % 2];
    }
}

constexpr std::size_t row_bytes = 16;

template <int matrices, Transpose transpose>
void resolve_ldmatrix(unsigned active, void** in, void** out) {
    expect_whole_warp(active, "ldmatrix");
    for (unsigned i = 0; i < matrices; ++i) {
        std::uint16_t matrix[8][8];
        for (unsigned row = 0; row < 8; ++row)
            std::memcpy(matrix[row], in[i * 8 + row], row_bytes);
        for (unsigned lane = 0; lane < warp_size; ++lane) {
            unsigned const row = lane / 4;
            unsigned const column = lane % 4 * 2;
            bool const across = transpose == Transpose::yes;
            std::uint32_t const first = across ? matrix[column][row] : matrix[row][column];
            std::uint32_t const second = across ? matrix[column + 1][row] : matrix[row][column + 1];
            static_cast<std::uint32_t*>(out[lane])[i] = first | second << 16;
        }
    }
}

} // namespace

void mma_m16n8k16(float (&d)[4], std::uint32_t const (&a)[4], std::uint32_t const (&b)[2],
                  float const (&c)[4], Location const& location) {
    if (capability() < 80)
        fail("mma of bfloat16 needs compute capability 8.0");
    MmaInput in{a, b, c};
    float out[4]; // d may be c
    warp_collective("mma", all_lanes, &in, out, resolve_mma, location);
    std::memcpy(d, out, sizeof out);
}

void ldmatrix(char const* operation, std::uint32_t* registers, void const* row, int matrices,
              Transpose transpose, Location const& location) {
    // The lane loads its row itself, so that sanitizers blame the right thread and line.
    alignas(row_bytes) std::uint16_t mine[8] = {};
    if (current_thread() % warp_size < 8 * static_cast<unsigned>(matrices)) {
        if (reinterpret_cast<std::uintptr_t>(row) % row_bytes != 0)
            fail(std::string{operation} + ": the address of a row is not aligned to 16 bytes");
        std::memcpy(mine, row, row_bytes);
    }
    bool const across = transpose == Transpose::yes;
    Resolver const resolve =
        matrices == 4
            ? (across ? resolve_ldmatrix<4, Transpose::yes> : resolve_ldmatrix<4, Transpose::no>)
            : (across ? resolve_ldmatrix<2, Transpose::yes> : resolve_ldmatrix<2, Transpose::no>);
    warp_collective(operation, all_lanes, mine, registers, resolve, location);
}

} // namespace evener::hostcuda
