// SPDX-License-Identifier: Apache-2.0
#pragma once

// Finds and opens the table of a back end. The host plug-in is a shared library per x86-64 level,
// `libevener_host_x86-64-v3.so`; of the files that exist the highest level that this CPU runs is
// taken, so that one build serves mixed nodes. The reference is linked in. A plug-in of another
// build is refused: the structs that cross the boundary might differ.

#include "device/device.hpp"

#include <filesystem>
#include <memory>
#include <string_view>
#include <vector>

namespace evener::device {

enum class Backend : std::uint8_t { host, reference };

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

/// Finds, checks and opens. Throws core::DeviceError.
std::unique_ptr<Device> open_device(Backend backend, kernels::DeviceOptions const& options);

} // namespace evener::device
