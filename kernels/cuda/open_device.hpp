// SPDX-License-Identifier: Apache-2.0
#pragma once

// The state behind the table's opaque Device, and the functions of the sub-tables.

#include "kernels/cuda/operation.hpp"
#include "kernels/cuda/status.hpp"

#include <array>

namespace evener::kernels::cuda {

struct OpenDevice {
    Context context;
    std::array<cudaStream_t, static_cast<std::size_t>(StreamKind::count)> streams{};

    cudaStream_t stream(StreamKind kind) const { return streams[static_cast<std::size_t>(kind)]; }
};

inline OpenDevice& unwrap(Device* device) {
    return *reinterpret_cast<OpenDevice*>(device);
}

/// Makes the device current on the calling thread; each thread of the process has its own.
inline OpenDevice& use(Device* device) {
    OpenDevice& open = unwrap(device);
    EVENER_CUDA(cudaSetDevice(open.context.ordinal));
    return open;
}

/// Like the functions of MemoryTable of the same names.
int count_devices(Reason* reason);
int describe(int ordinal, DeviceFacts* facts, Reason* reason);

/// Like the functions of DeviceTable of the same names.
Device* open(DeviceOptions const* options, Reason* reason);
void close(Device* device);

/// One line about the libraries, and about the device that was opened last, if any:
/// "NVIDIA H100 80GB HBM3 (compute capability 9.0), CUDA run time 13.0, cuBLASLt 13.0.2".
char const* description();

MemoryTable const* memory_table();
GroupTable const* group_table();

} // namespace evener::kernels::cuda
