// SPDX-License-Identifier: Apache-2.0

// mkdtemp makes the folder and the name in one step, so two processes never share one.

#include "support/temporary_folder.hpp"

#include "core/error.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

namespace evener::support {

TemporaryFolder::TemporaryFolder(std::string_view name) {
    std::string pattern = std::filesystem::temp_directory_path() / "evener-";
    pattern.append(name).append("-XXXXXX");
    if (!mkdtemp(pattern.data()))
        throw core::IoError{pattern, std::strerror(errno)};
    path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
}

} // namespace evener::support
