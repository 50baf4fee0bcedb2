// SPDX-License-Identifier: Apache-2.0
#include "comm/cuda_aware.hpp"

#include <mpi.h>

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h> // needs mpi.h before it
#endif

namespace evener::comm {

CudaSupport cuda_support() {
#ifdef MPIX_CUDA_AWARE_SUPPORT // with it comes the function; its own value is of build time
    return MPIX_Query_cuda_support() == 1 ? CudaSupport::yes : CudaSupport::no;
#else
    return CudaSupport::unknown;
#endif
}

} // namespace evener::comm
