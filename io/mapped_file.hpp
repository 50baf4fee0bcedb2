// SPDX-License-Identifier: Apache-2.0
#pragma once

// A read-only memory map of a whole file. The size is taken once, at open; callers check every
// offset against it before use, so a malformed file cannot lead them outside the map. A file that is
// cut short later reads as zeros from then on; whoever reads it while others may change it asks.

#include "core/handle.hpp"
#include "io/mapping_guard.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace evener::io {

enum class AccessPattern { random, sequential };

class MappedFile {
  public:
    MappedFile() = default;
    /// An empty file maps to no bytes. Throws core::IoError when it cannot be opened or mapped.
    explicit MappedFile(std::string path);
    MappedFile(MappedFile&& other) noexcept;
    MappedFile& operator=(MappedFile&& other) noexcept;
    ~MappedFile();

    std::string const& path() const noexcept { return path_; }
    std::span<std::byte const> bytes() const noexcept { return bytes_; }
    std::int64_t size() const noexcept { return static_cast<std::int64_t>(bytes_.size()); }
    /// Tells the kernel how the map is about to be read; a hint only.
    void advise(AccessPattern pattern) const noexcept;
    /// Throws core::IoError when the file was cut short since it was opened: what was read until now
    /// may be zeros.
    void require_unchanged() const;

  private:
    std::string path_;
    std::span<std::byte const> bytes_;
    MappingGuard guard_;
};

} // namespace evener::io
