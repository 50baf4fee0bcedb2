// SPDX-License-Identifier: Apache-2.0
#pragma once

// Memory of a device and memory that it shares with the host. On devices that compute in the
// process's own memory there is no difference, and the same code runs.

#include "device/device.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace evener::device {

/// A region that ends with its owner; must not outlive its device.
class Allocation {
  public:
    Allocation() = default;
    /// Memory of the device, for operands; not filled. Throws core::DeviceError with the sizes.
    static Allocation on_device(Device const& device, std::int64_t bytes);
    /// Memory that both the host and the device's operations and copies use; filled with zeros. On
    /// devices with a memory of their own it is pinned. Throws core::DeviceError.
    static Allocation shared(Device const& device, std::int64_t bytes);
    Allocation(Allocation&& other) noexcept;
    Allocation& operator=(Allocation&& other) noexcept;
    ~Allocation() { release(); }

    std::byte* data() const noexcept { return data_; }
    std::int64_t size() const noexcept { return bytes_; }

  private:
    enum class Kind : std::uint8_t { none, host, device, pinned };
    void release() noexcept;

    Device const* device_ = nullptr;
    Kind kind_ = Kind::none;
    std::byte* data_ = nullptr;
    std::int64_t bytes_ = 0;
};

/// Between operands, which may lie in pinned memory: in the order of the compute stream, on host
/// devices at once.
void enqueue_copy(Device const& device, void* dst, void const* src, std::int64_t bytes);
/// Between operands; returns when the data is there.
void move(Device const& device, void* dst, void const* src, std::int64_t bytes);
/// Copies between operands and ordinary memory of the process; return when the data is there.
/// `pinned`: through which they go on devices with a memory of their own; allocated where empty.
void upload(Device const& device, void* dst, void const* src, std::int64_t bytes,
            std::span<std::byte> pinned = {});
void download(Device const& device, void* dst, void const* src, std::int64_t bytes,
              std::span<std::byte> pinned = {});

} // namespace evener::device
