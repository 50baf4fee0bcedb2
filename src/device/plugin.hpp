// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds and opens the table of a back end. The host plug-in is a shared library per x86-64 level,
// `libevener_host_x86-64-v3.so`; of the files that exist the highest level that this CPU runs is
// taken, so that one build serves mixed nodes. The CUDA plug-in, `libevener_cuda.so`, is opened where
// a driver sees GPUs; EVENER_DEVICE_PLUGIN names another file for it. The reference is linked in. A plug-in of another
// build is refused: the structs that cross the boundary might differ.

#include "device/device.hpp"

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace evener::device {

enum class Backend : std::uint8_t { host, reference, cuda };

std::string_view name_of(Backend backend);

/// Where plug-ins are looked for, in order: EVENER_PLUGIN_PATH alone when it is set (folders
/// separated by ':'), else the executable's folder, ../lib beside it, and the build tree.
std::vector<std::filesystem::path> plugin_folders();

/// The highest x86-64 level of this CPU: 2, 3 or 4; 0 when it is below 2.
int cpu_level();

/// The file that open_device would take in these folders. Throws core::DeviceError that lists what
/// was looked for.
std::filesystem::path find_host_plugin(std::vector<std::filesystem::path> const& folders,
                                       int level);

/// Opens a plug-in's library and checks version and build. It stays loaded until the process ends,
/// since the threads of an OpenMP run-time inside may not be unloaded. Throws core::DeviceError
/// with the loader's text.
kernels::DeviceTable const& load_plugin(std::filesystem::path const& file);

/// One GPU that this process could open.
struct Gpu {
    int ordinal = 0;
    kernels::DeviceFacts facts;
};

/// GPUs that the CUDA driver shows this process; 0 without a driver.
int driver_gpu_count();

/// The GPUs of this process, by ordinal; none where there is neither a driver with GPUs nor a
/// plug-in named by EVENER_DEVICE_PLUGIN. Throws core::DeviceError where there are GPUs and the
/// plug-in cannot be loaded.
std::vector<Gpu> find_gpus();

/// Finds, checks and opens. Throws core::DeviceError.
std::unique_ptr<Device> open_device(Backend backend, kernels::DeviceOptions const& options);

} // namespace evener::device
