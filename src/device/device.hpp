// SPDX-License-Identifier: Apache-2.0
#pragma once

// One opened device: the device table of a back end with errors as exceptions and lifetimes as
// objects. Operations are prepared once per shape and then run without allocating. A device is used
// by one thread at a time (the compute thread).

#include "core/types.hpp"
#include "kernels/table.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace evener::device {

/// The element type's name in the kernel contracts, and back.
constexpr kernels::Element element_of(core::DType type) {
    return type == core::DType::float32 ? kernels::Element::float32 : kernels::Element::bfloat16;
}
constexpr core::DType dtype_of(kernels::Element element) {
    return element == kernels::Element::float32 ? core::DType::float32 : core::DType::bfloat16;
}

/// An operation with its shape decided; must not outlive its device. Empty when default-made or
/// moved from.
class PreparedOperation {
  public:
    PreparedOperation() = default;
    PreparedOperation(PreparedOperation&& other) noexcept;
    PreparedOperation& operator=(PreparedOperation&& other) noexcept;
    ~PreparedOperation() { release(); }

    bool empty() const noexcept { return prepared_ == nullptr; }
    kernels::OperationKind kind() const noexcept { return kind_; }
    /// What run needs behind `workspace`; 0 = nothing.
    std::int64_t workspace_bytes() const noexcept { return workspace_bytes_; }

  private:
    friend class Device;
    void release() noexcept;

    kernels::DeviceTable const* table_ = nullptr;
    kernels::Device* device_ = nullptr;
    kernels::Prepared* prepared_ = nullptr;
    kernels::OperationKind kind_ = kernels::OperationKind::clear;
    std::int64_t workspace_bytes_ = 0;
};

/// A point in one of a device's streams. Must not outlive its device; empty when default-made or
/// moved from.
class Event {
  public:
    Event() = default;
    Event(Event&& other) noexcept;
    Event& operator=(Event&& other) noexcept;
    ~Event() { release(); }

    bool empty() const noexcept { return event_ == nullptr; }

  private:
    friend class Device;
    void release() noexcept;

    kernels::DeviceTable const* table_ = nullptr;
    kernels::Device* device_ = nullptr;
    kernels::Event* event_ = nullptr;
};

/// Copies, records and waits are for devices with a memory of their own and only enqueue; they may
/// be called by any thread, and throw core::DeviceError with the call and the plug-in's words.
class Device {
  public:
    /// Opens the device of a table that stays loaded. Throws core::DeviceError with the table's
    /// reason.
    Device(kernels::DeviceTable const& table, kernels::DeviceOptions const& options);
    Device(Device const&) = delete;
    Device& operator=(Device const&) = delete;
    ~Device();

    std::string_view description() const noexcept { return table_.description; }
    std::string_view kind() const noexcept { return table_.kind; }
    int threads() const noexcept { return options_.threads; }

    /// Whether operations can compute in this type at all.
    bool supports(core::DType type) const;

    /// Throws core::DeviceError with the operation, its shape's contract and the reason when no
    /// implementation takes it.
    PreparedOperation prepare(kernels::OperationShape const& shape) const;

    /// `operands` in the order of the operation's Operand list, all of them (null where optional);
    /// `workspace` aligned to 64 bytes, at least workspace_bytes(). Returns when the result is
    /// there, on devices with a memory of their own when the operation is enqueued on the compute
    /// stream. Throws core::DeviceError.
    void run(PreparedOperation const& operation, std::span<void* const> operands,
             void* workspace) const;

    /// Whether operands are addresses in the device's own memory, which the process cannot use.
    bool has_own_memory() const noexcept { return table_.memory != nullptr; }
    /// What is left of the device's own memory.
    std::int64_t free_bytes() const;

    /// Between any two of device and pinned memory.
    void copy(kernels::StreamKind stream, void* dst, void const* src, std::int64_t bytes) const;
    Event make_event() const;
    void record(Event const& event, kernels::StreamKind stream) const;
    /// What is enqueued on `stream` from now on starts after the event's last record.
    void wait(kernels::StreamKind stream, Event const& event) const;
    /// Whether all before the event's last record is done; true when it never was recorded.
    bool done(Event const& event) const;
    double elapsed_seconds(Event const& begin, Event const& end) const;
    /// Waits until everything enqueued so far is done; nothing to do on other devices.
    void synchronize() const;

  private:
    friend class Allocation;   // calls the memory table
    friend struct GroupAccess; // calls the group table
    void require(int code, kernels::Reason const& reason, char const* call) const;

    kernels::DeviceTable const& table_;
    kernels::DeviceOptions options_;
    kernels::Device* device_ = nullptr;
};

/// "matmul", "rms_norm_backward", ...
std::string_view name_of(kernels::OperationKind kind);

/// Length of the operation's Operand list.
int operand_count(kernels::OperationKind kind);

} // namespace evener::device
