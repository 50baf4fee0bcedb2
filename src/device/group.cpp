// SPDX-License-Identifier: Apache-2.0
#include "device/group.hpp"

#include <fmt/format.h>

#include <utility>

namespace evener::device {

/// What a group needs of its device.
struct GroupAccess {
    static kernels::GroupTable const& table(Device const& device) {
        if (device.table_.group == nullptr)
            throw core::DeviceError{
                0, false,
                fmt::format("devices of kind '{}' cannot form groups (their back end has no "
                            "collectives); exchange through host memory",
                            device.kind())};
        return *device.table_.group;
    }
    static kernels::Device* handle(Device const& device) { return device.device_; }
    static void require(Device const& device, int code, kernels::Reason const& reason,
                        char const* call) {
        device.require(code, reason, call);
    }
};

int group_library_version(Device const& device) {
    kernels::Reason reason;
    int version = 0;
    GroupAccess::require(device, GroupAccess::table(device).library_version(&version, &reason),
                         reason, "library_version");
    return version;
}

GroupId make_group_id(Device const& device) {
    kernels::Reason reason;
    GroupId id{};
    GroupAccess::require(device, GroupAccess::table(device).make_id(id.data(), &reason), reason,
                         "make_id");
    return id;
}

Group::Group(Device const& device, GroupId const& id, int rank, int size)
    : device_{device}, table_{GroupAccess::table(device)}, rank_{rank}, size_{size} {
    EVENER_EXPECT(rank >= 0 && rank < size);
    kernels::Reason reason;
    require(table_.create(GroupAccess::handle(device), id.data(), rank, size, &group_, &reason),
            reason, "create of a group");
}

Group::~Group() {
    if (group_ == nullptr)
        return;
    if (failed_ || std::uncaught_exceptions() > exceptions_)
        abort();
    else
        table_.destroy(group_);
}

void Group::require(int code, kernels::Reason const& reason, char const* call) {
    failed_ |= code != 0;
    GroupAccess::require(device_, code, reason, call);
}

/// Another thread may have given up while this one was about to call.
void Group::require_joined() const {
    if (group_ == nullptr)
        throw core::DeviceError{0, true, "the group of devices was aborted (see the error before)"};
}

bool Group::ready() {
    std::lock_guard const lock{mutex_};
    require_joined();
    kernels::Reason reason;
    int const code = table_.ready(group_, &reason);
    if (code == 1)
        return false;
    require(code, reason, "ready of a group");
    return true;
}

void Group::reduce(float const* gradient, float* reduced,
                   std::span<kernels::GroupPart const> parts) {
    std::lock_guard const lock{mutex_};
    require_joined();
    kernels::Reason reason;
    int const code = table_.reduce(group_, gradient, reduced, parts.data(),
                                   static_cast<int>(parts.size()), &reason);
    if (code != 1)
        require(code, reason, "reduce of a group");
}

void Group::gather(void* weights, core::DType type, std::span<kernels::GroupPart const> parts) {
    std::lock_guard const lock{mutex_};
    require_joined();
    kernels::Reason reason;
    int const code = table_.gather(group_, weights, element_of(type), parts.data(),
                                   static_cast<int>(parts.size()), &reason);
    if (code != 1)
        require(code, reason, "gather of a group");
}

void Group::abort() noexcept {
    std::lock_guard const lock{mutex_};
    if (group_ != nullptr)
        table_.abort(std::exchange(group_, nullptr));
}

} // namespace evener::device
