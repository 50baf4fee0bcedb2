// SPDX-License-Identifier: Apache-2.0
#pragma once

// Whether this MPI takes addresses of CUDA memory, by its own word.

namespace evener::comm {

enum class CudaSupport : unsigned char {
    unknown, ///< it has no such question
    no,
    yes
};

/// After MPI has started.
CudaSupport cuda_support();

} // namespace evener::comm
