// SPDX-License-Identifier: Apache-2.0
#pragma once

// All a kernel file needs to be compiled as C++ and run on the CPU; included by
// kernels/cuda/gpu.hpp when the compiler is not nvcc.

#include "atomics.hpp"    // IWYU pragma: export
#include "intrinsics.hpp" // IWYU pragma: export
#include "keywords.hpp"   // IWYU pragma: export
#include "launch.hpp"     // IWYU pragma: export
#include "scheduler.hpp"  // IWYU pragma: export
#include "warp.hpp"       // IWYU pragma: export
