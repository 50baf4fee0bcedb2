// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tensor cores and ldmatrix as warp collectives with the fragment layouts of the PTX manual: lane
// 4 g + t holds columns 2 t and 2 t + 1 of row g. Products are summed in float32 in order of k; a
// device rounds otherwise.

#include "scheduler.hpp"

#include <cstdint>

namespace evener::hostcuda {

/// D (16 x 8, float32) = A (16 x 16, row) * B (16 x 8, column) + C; A and B bfloat16 pairs.
void mma_m16n8k16(float (&d)[4], std::uint32_t const (&a)[4], std::uint32_t const (&b)[2],
                  float const (&c)[4], Location const& location);

enum class Transpose : bool { no, yes };

/// `matrices` (2 or 4) 8 x 8 matrices of 16-bit elements; lane 8 i + r brings the address of row r
/// of matrix i.
void ldmatrix(char const* operation, std::uint32_t* registers, void const* row, int matrices,
              Transpose transpose, Location const& location);

} // namespace evener::hostcuda
