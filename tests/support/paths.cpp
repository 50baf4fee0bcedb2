// SPDX-License-Identifier: Apache-2.0

// The paths are those of the build, set by tests/support/CMakeLists.txt.

#include "support/paths.hpp"

namespace evener::support {

std::filesystem::path source_root() {
    return EVENER_SOURCE_ROOT;
}

std::filesystem::path build_root() {
    return EVENER_BUILD_ROOT;
}

std::filesystem::path program(std::string_view name) {
    return build_root() / "bin" / name;
}

std::string mpiexec() {
    return EVENER_MPIEXEC;
}

} // namespace evener::support
