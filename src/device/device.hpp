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
    /// there. Throws core::DeviceError.
    void run(PreparedOperation const& operation, std::span<void* const> operands,
             void* workspace) const;

  private:
    kernels::DeviceTable const& table_;
    kernels::DeviceOptions options_;
    kernels::Device* device_ = nullptr;
};

/// "matmul", "rms_norm_backward", ...
std::string_view name_of(kernels::OperationKind kind);

/// Length of the operation's Operand list.
int operand_count(kernels::OperationKind kind);

} // namespace evener::device
