// SPDX-License-Identifier: Apache-2.0
#pragma once

// The fake NCCL as a library that can be asked for functions.

namespace evener::hostcuda {

/// Null when the fake has no such function.
void* nccl_function(char const* name);

} // namespace evener::hostcuda
