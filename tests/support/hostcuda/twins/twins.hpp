// SPDX-License-Identifier: Apache-2.0
#pragma once

// Kernels with one seeded bug each, and their corrected twins. They are tests of the layer: the
// first must be reported, the second must not.

#include <cuda_runtime_api.h>

#include <string>

namespace evener::twins {

enum class Twin : bool { correct, wrong };

/// Runs the kernel of this name on `x` and `y`, `count` elements each. False when there is none.
bool run(std::string const& name, Twin twin, float const* x, float* y, int count);

/// to[i] = to[i] / 2 + from[i]; no twin, but what the asynchronous program launches.
void add_to_half(float* to, float const* from, int count, cudaStream_t stream);

} // namespace evener::twins
