// SPDX-License-Identifier: Apache-2.0
#pragma once

// Words shared by all kernel contracts. Plain types only: they cross the plug-in boundary.
//
// Conventions of every operation
// - Matrices are row-major; `src`/`dst` name what is read and written; operands are passed as an
//   array of pointers in the order of the operation's `Operand` list; an optional operand may be
//   null only where its header says so.
// - `T` is the compute type (float32 or bfloat16). Sums are float32 or wider. Gradients of
//   parameters are float32 and are accumulated (`+=`); everything else is overwritten, unless said
//   otherwise.
// - Sizes may be 0 (nothing is read or written) and pointers need only the alignment of their type.
// - The order of every sum depends on the sizes and the number of threads alone, never on timing.

#include <cstdint>

namespace evener::kernels {

/// Same order as core::DType; kernels depend on nothing.
enum class Element : std::uint8_t { float32, bfloat16 };

constexpr std::int64_t bytes_of(Element type) {
    return type == Element::float32 ? 4 : 2;
}

} // namespace evener::kernels
