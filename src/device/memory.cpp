// SPDX-License-Identifier: Apache-2.0
#include "device/memory.hpp"

#include "core/size_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace evener::device {

namespace {

using kernels::StreamKind;

constexpr std::int64_t alignment = 256;

/// Bytes of the pinned block through which ordinary memory is copied.
constexpr std::int64_t bounce_bytes = std::int64_t{16} << 20;

/// Calls `copy(to, from, pinned block, bytes)` for parts that fit the block, which is allocated where
/// none is given; copies at once where the device uses the process's memory.
template <class Copy>
void through_pinned(Device const& device, void* dst, void const* src, std::int64_t bytes,
                    std::span<std::byte> block, Copy copy) {
    if (bytes == 0)
        return;
    if (!device.has_own_memory()) {
        std::memcpy(dst, src, static_cast<std::size_t>(bytes));
        return;
    }
    Allocation own;
    if (block.empty()) {
        own = Allocation::shared(device, std::min(bytes, bounce_bytes));
        block = {own.data(), static_cast<std::size_t>(own.size())};
    }
    auto const size = static_cast<std::int64_t>(block.size());
    for (std::int64_t begin = 0; begin < bytes; begin += size)
        copy(static_cast<std::byte*>(dst) + begin, static_cast<std::byte const*>(src) + begin,
             block.data(), std::min(size, bytes - begin));
}

} // namespace

Allocation Allocation::on_device(Device const& device, std::int64_t bytes) {
    EVENER_EXPECT(bytes >= 0);
    if (!device.has_own_memory())
        return shared(device, bytes);
    Allocation result;
    if (bytes == 0)
        return result;
    std::int64_t const left = device.free_bytes();
    if (bytes > left)
        throw core::DeviceError{
            0, false,
            fmt::format("{} are needed on device '{}' (it has {} free) use more "
                        "ranks, a smaller microbatch or a smaller model",
                        core::size_text(bytes), device.description(), core::size_text(left))};
    kernels::Reason reason;
    void* data = nullptr;
    device.require(device.table_.memory->allocate(device.device_, bytes, &data, &reason), reason,
                   "allocate");
    result.device_ = &device;
    result.kind_ = Kind::device;
    result.data_ = static_cast<std::byte*>(data);
    result.bytes_ = bytes;
    return result;
}

Allocation Allocation::shared(Device const& device, std::int64_t bytes) {
    EVENER_EXPECT(bytes >= 0);
    Allocation result;
    if (bytes == 0)
        return result;
    void* data = nullptr;
    if (device.has_own_memory()) {
        kernels::Reason reason;
        device.require(device.table_.memory->allocate_pinned(device.device_, bytes, &data, &reason),
                       reason, "allocate_pinned");
        result.kind_ = Kind::pinned;
    } else {
        data = std::aligned_alloc(alignment,
                                  static_cast<std::size_t>(core::round_up(bytes, alignment)));
        if (data == nullptr)
            throw core::DeviceError{
                0, false, fmt::format("{} of memory are not there", core::size_text(bytes))};
        result.kind_ = Kind::host;
    }
    result.device_ = &device;
    result.data_ = static_cast<std::byte*>(data);
    result.bytes_ = bytes;
    std::memset(data, 0, static_cast<std::size_t>(bytes));
    return result;
}

Allocation::Allocation(Allocation&& other) noexcept {
    *this = std::move(other);
}

Allocation& Allocation::operator=(Allocation&& other) noexcept {
    if (this != &other) {
        release();
        device_ = other.device_;
        kind_ = std::exchange(other.kind_, Kind::none);
        data_ = std::exchange(other.data_, nullptr);
        bytes_ = std::exchange(other.bytes_, 0);
    }
    return *this;
}

void Allocation::release() noexcept {
    switch (std::exchange(kind_, Kind::none)) {
    case Kind::none:
        break;
    case Kind::host:
        std::free(data_);
        break;
    case Kind::device:
        device_->table_.memory->deallocate(device_->device_, data_);
        break;
    case Kind::pinned:
        device_->table_.memory->deallocate_pinned(device_->device_, data_);
        break;
    }
    data_ = nullptr;
    bytes_ = 0;
}

void enqueue_copy(Device const& device, void* dst, void const* src, std::int64_t bytes) {
    if (device.has_own_memory())
        device.copy(StreamKind::compute, dst, src, bytes);
    else if (bytes > 0)
        std::memcpy(dst, src, static_cast<std::size_t>(bytes));
}

void move(Device const& device, void* dst, void const* src, std::int64_t bytes) {
    enqueue_copy(device, dst, src, bytes);
    device.synchronize();
}

void upload(Device const& device, void* dst, void const* src, std::int64_t bytes,
            std::span<std::byte> pinned_block) {
    through_pinned(device, dst, src, bytes, pinned_block,
                   [&](auto* to, auto const* from, std::byte* pinned, std::int64_t part) {
                       std::memcpy(pinned, from, static_cast<std::size_t>(part));
                       device.copy(StreamKind::copy_in, to, pinned, part);
                       device.synchronize();
                   });
}

void download(Device const& device, void* dst, void const* src, std::int64_t bytes,
              std::span<std::byte> pinned_block) {
    through_pinned(device, dst, src, bytes, pinned_block,
                   [&](auto* to, auto const* from, std::byte* pinned, std::int64_t part) {
                       device.copy(StreamKind::copy_out, pinned, from, part);
                       device.synchronize();
                       std::memcpy(to, pinned, static_cast<std::size_t>(part));
                   });
}

} // namespace evener::device
