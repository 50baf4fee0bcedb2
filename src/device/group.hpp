// SPDX-License-Identifier: Apache-2.0
#pragma once

// Devices that reduce and gather among themselves, one rank each (NCCL among CUDA devices). Work is
// enqueued on the collective stream, by all members in the same order. Whoever waits for it must ask
// `ready` meanwhile: that is how the failure of another member becomes known, and `abort` ends what
// waits for a member that never comes. Any thread may call.

#include "device/device.hpp"

#include <array>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>

namespace evener::device {

using GroupId = std::array<std::byte, kernels::group_id_bytes>;

/// Version of the library that groups of this device need, which is opened now: major * 10000 +
/// minor * 100 + patch. Throws core::DeviceError with the loader's words, also where this kind of
/// device has no groups.
int group_library_version(Device const& device);

/// Made by one member, given to all.
GroupId make_group_id(Device const& device);

class Group {
  public:
    /// Begins to join; `ready` says when all members have. Throws core::DeviceError.
    Group(Device const& device, GroupId const& id, int rank, int size);
    Group(Group const&) = delete;
    Group& operator=(Group const&) = delete;
    /// Collective, but after abort, after a failure and while an exception unwinds.
    ~Group();

    int rank() const noexcept { return rank_; }
    int size() const noexcept { return size_; }

    /// Whether the group can be used and all of the last call is on the stream. Throws
    /// core::DeviceError with the library's words when a member failed.
    bool ready();

    /// Each owner's `reduced`, its parts one after the other, becomes the sum of all members'
    /// `gradient`, float32; the addresses are those of this rank. May be called, and an event
    /// recorded behind it, only while `ready` is true. Throws core::DeviceError.
    void reduce(float const* gradient, float* reduced, std::span<kernels::GroupPart const> parts);
    /// Every member's `weights` gets each owner's part, in place.
    void gather(void* weights, core::DType type, std::span<kernels::GroupPart const> parts);

    /// Ends what is in flight without waiting for other members; nothing else may be called then.
    void abort() noexcept;

  private:
    void require(int code, kernels::Reason const& reason, char const* call);
    void require_joined() const;

    Device const& device_;
    kernels::GroupTable const& table_;
    std::mutex mutex_;                ///< of the next two
    kernels::Group* group_ = nullptr; ///< null after abort
    bool failed_ = false;
    int rank_ = 0;
    int size_ = 1;
    int exceptions_ = std::uncaught_exceptions(); ///< unwinding when it was made
};

} // namespace evener::device
