// SPDX-License-Identifier: Apache-2.0
#pragma once

// A folder of one test's own, removed with all it holds when the object goes.

#include <filesystem>
#include <string_view>

namespace evener::support {

class TemporaryFolder {
  public:
    /// Makes <system's temporary folder>/evener-<name>-XXXXXX; ranks that each make one get
    /// different ones. Throws core::IoError when that fails.
    explicit TemporaryFolder(std::string_view name = "test");
    TemporaryFolder(TemporaryFolder const&) = delete;
    TemporaryFolder& operator=(TemporaryFolder const&) = delete;
    ~TemporaryFolder();

    std::filesystem::path const& path() const noexcept { return path_; }
    /// A path inside the folder.
    std::filesystem::path operator/(std::string_view name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

} // namespace evener::support
