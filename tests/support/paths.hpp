// SPDX-License-Identifier: Apache-2.0
#pragma once

// Where the tests find the source tree, what was built, and mpirun.

#include <filesystem>
#include <string>
#include <string_view>

namespace evener::support {

std::filesystem::path source_root();
std::filesystem::path build_root();

/// A built executable, e.g. program("evener").
std::filesystem::path program(std::string_view name);

/// The mpirun of the MPI that Evener is built with.
std::string mpiexec();

} // namespace evener::support
