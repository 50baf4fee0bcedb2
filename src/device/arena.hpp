// SPDX-License-Identifier: Apache-2.0
#pragma once

// The one region of memory that holds a rank's buffers, the device's own memory where it has some.
// Its size is the program's; all pages exist when the constructor returns, so that nothing can run
// out of memory after step 1.

#include "device/memory.hpp"

#include <cstddef>
#include <cstdint>
#include <filesystem>

namespace evener::device {

struct ArenaOptions {
    int threads = 1; ///< that touch the pages
};

class Arena {
  public:
    /// In the process's memory: zero-filled, aligned to 2 MiB, in huge pages where the system gives them. Throws
    /// core::DeviceError with the sizes when the memory is not there.
    explicit Arena(std::int64_t bytes, ArenaOptions const& options = {});
    /// In the memory that the device computes in.
    Arena(Device const& device, std::int64_t bytes, ArenaOptions const& options = {});
    Arena(Arena const&) = delete;
    Arena& operator=(Arena const&) = delete;
    ~Arena();

    /// offset in [0, size()].
    std::byte* at(std::int64_t offset) const {
        EVENER_EXPECT(offset >= 0 && offset <= bytes_);
        return base_ + offset;
    }
    std::int64_t size() const noexcept { return bytes_; }

  private:
    void map(ArenaOptions const& options);
    void clear(Device const& device);

    std::byte* base_ = nullptr;
    std::int64_t bytes_ = 0;
    std::byte* mapping_ = nullptr; ///< base_ and what stands before it for the alignment
    std::int64_t mapping_bytes_ = 0;
    Allocation allocation_; ///< on devices with a memory of their own
};

/// Bytes that can be allocated on this node: what the kernel has available, or what is left of the
/// tightest limit of this process's control groups. -1 when the system does not say. `root` is
/// another root of /proc and /sys (tests).
std::int64_t available_memory_bytes(std::filesystem::path const& root = "/");

} // namespace evener::device
