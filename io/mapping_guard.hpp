// SPDX-License-Identifier: Apache-2.0
#pragma once

// A mapped file that somebody cuts short takes the process with it: reading behind its new end is a
// bus error. A guarded mapping turns into zeros of the process's own instead, and says so.

#include <cstddef>
#include <span>

namespace evener::io {

class MappingGuard {
  public:
    MappingGuard() = default;
    /// Of whole pages that mmap gave with `protection` (PROT_READ, PROT_WRITE). Installs a handler
    /// for SIGBUS, which passes on to the one before whatever is not in a guarded mapping. There is
    /// room for 64 guarded mappings at a time; more are left as they are.
    MappingGuard(std::span<std::byte const> mapping, int protection);
    MappingGuard(MappingGuard&& other) noexcept;
    MappingGuard& operator=(MappingGuard&& other) noexcept;
    ~MappingGuard(); ///< before the mapping ends

    /// Whether the mapping is zeros now. Ask after what was read from it was used, or before it is
    /// trusted.
    bool lost() const noexcept;

  private:
    static constexpr int none = -1;
    int slot_ = none;
};

} // namespace evener::io
