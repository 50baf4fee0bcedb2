// SPDX-License-Identifier: Apache-2.0
#include "device/device.hpp"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace evener::device {

namespace {

struct OperationInfo {
    std::string_view name;
    int operands;
};

/// In the order of kernels::OperationKind.
constexpr std::array<OperationInfo, static_cast<std::size_t>(kernels::OperationKind::count)>
    operations{{
        {"matmul", kernels::MatmulOperand::count},
        {"rms_norm", kernels::RmsNormOperand::count},
        {"rms_norm_backward", kernels::RmsNormBackwardOperand::count},
        {"rms_norm_weight_gradient", kernels::RmsNormWeightGradientOperand::count},
        {"rotary", kernels::RotaryOperand::count},
        {"attention", kernels::AttentionOperand::count},
        {"attention_backward", kernels::AttentionBackwardOperand::count},
        {"swiglu", kernels::SwigluOperand::count},
        {"swiglu_backward", kernels::SwigluBackwardOperand::count},
        {"embedding", kernels::EmbeddingOperand::count},
        {"embedding_gradient", kernels::EmbeddingGradientOperand::count},
        {"cross_entropy", kernels::CrossEntropyOperand::count},
        {"adamw", kernels::AdamwOperand::count},
        {"sgd", kernels::SgdOperand::count},
        {"convert", kernels::ConvertOperand::count},
        {"clear", kernels::ClearOperand::count},
        {"column_sums", kernels::ColumnSumsOperand::count},
        {"segment_sums", kernels::SegmentSumsOperand::count},
        {"sum_squares", kernels::SumSquaresOperand::count},
    }};

OperationInfo const& info(kernels::OperationKind kind) {
    auto const index = static_cast<std::size_t>(kind);
    EVENER_EXPECT(index < operations.size());
    return operations[index];
}

} // namespace

std::string_view name_of(kernels::OperationKind kind) {
    return info(kind).name;
}

int operand_count(kernels::OperationKind kind) {
    return info(kind).operands;
}

PreparedOperation::PreparedOperation(PreparedOperation&& other) noexcept {
    *this = std::move(other);
}

PreparedOperation& PreparedOperation::operator=(PreparedOperation&& other) noexcept {
    if (this != &other) {
        release();
        table_ = other.table_;
        device_ = other.device_;
        prepared_ = std::exchange(other.prepared_, nullptr);
        kind_ = other.kind_;
        workspace_bytes_ = std::exchange(other.workspace_bytes_, 0);
    }
    return *this;
}

void PreparedOperation::release() noexcept {
    if (prepared_ != nullptr)
        table_->release(device_, std::exchange(prepared_, nullptr));
}

Event::Event(Event&& other) noexcept {
    *this = std::move(other);
}

Event& Event::operator=(Event&& other) noexcept {
    if (this != &other) {
        release();
        table_ = other.table_;
        device_ = other.device_;
        event_ = std::exchange(other.event_, nullptr);
    }
    return *this;
}

void Event::release() noexcept {
    if (event_ != nullptr)
        table_->memory->destroy_event(device_, std::exchange(event_, nullptr));
}

Device::Device(kernels::DeviceTable const& table, kernels::DeviceOptions const& options)
    : table_{table}, options_{options} {
    EVENER_EXPECT(options.threads >= 1);
    kernels::Reason reason;
    device_ = table_.open(&options_, &reason);
    if (device_ == nullptr)
        throw core::DeviceError{
            0, true, fmt::format("device '{}' cannot be opened ({})", table_.kind, reason.text)};
}

Device::~Device() {
    table_.close(device_);
}

bool Device::supports(core::DType type) const {
    return table_.supports(device_, element_of(type));
}

PreparedOperation Device::prepare(kernels::OperationShape const& shape) const {
    kernels::Reason reason;
    std::int64_t workspace_bytes = 0;
    kernels::Prepared* const prepared = table_.prepare(device_, &shape, &workspace_bytes, &reason);
    if (prepared == nullptr)
        throw core::DeviceError{0, false,
                                fmt::format("device '{}' cannot compute this {} ({})", table_.kind,
                                            name_of(shape.kind), reason.text)};
    PreparedOperation operation;
    operation.table_ = &table_;
    operation.device_ = device_;
    operation.prepared_ = prepared;
    operation.kind_ = shape.kind;
    operation.workspace_bytes_ = workspace_bytes;
    return operation;
}

void Device::run(PreparedOperation const& operation, std::span<void* const> operands,
                 void* workspace) const {
    EVENER_EXPECT(!operation.empty() && operation.device_ == device_);
    EVENER_EXPECT(operands.size() == static_cast<std::size_t>(operand_count(operation.kind_)));
    EVENER_EXPECT(operation.workspace_bytes_ == 0 ||
                  (workspace != nullptr && reinterpret_cast<std::uintptr_t>(workspace) % 64 == 0));
    kernels::Reason reason;
    int const code = table_.run(device_, operation.prepared_, operands.data(), workspace, &reason);
    if (code != 0)
        throw core::DeviceError{code, true,
                                fmt::format("device '{}' failed in {} (code {}: {})", table_.kind,
                                            name_of(operation.kind_), code, reason.text)};
}

void Device::require(int code, kernels::Reason const& reason, char const* call) const {
    if (code != 0)
        throw core::DeviceError{code, true,
                                fmt::format("device '{}' failed in {} (code {}: {})", table_.kind,
                                            call, code, reason.text)};
}

std::int64_t Device::free_bytes() const {
    EVENER_EXPECT(has_own_memory());
    kernels::Reason reason;
    std::int64_t bytes = 0;
    require(table_.memory->free_bytes(device_, &bytes, &reason), reason, "free_bytes");
    return bytes;
}

void Device::copy(kernels::StreamKind stream, void* dst, void const* src,
                  std::int64_t bytes) const {
    EVENER_EXPECT(has_own_memory() && bytes >= 0);
    if (bytes == 0)
        return;
    kernels::Reason reason;
    require(table_.memory->copy(device_, stream, dst, src, bytes, &reason), reason, "copy");
}

Event Device::make_event() const {
    EVENER_EXPECT(has_own_memory());
    kernels::Reason reason;
    Event event;
    require(table_.memory->create_event(device_, &event.event_, &reason), reason, "create_event");
    event.table_ = &table_;
    event.device_ = device_;
    return event;
}

void Device::record(Event const& event, kernels::StreamKind stream) const {
    EVENER_EXPECT(event.device_ == device_ && !event.empty());
    kernels::Reason reason;
    require(table_.memory->record(device_, event.event_, stream, &reason), reason, "record");
}

void Device::wait(kernels::StreamKind stream, Event const& event) const {
    EVENER_EXPECT(event.device_ == device_ && !event.empty());
    kernels::Reason reason;
    require(table_.memory->wait(device_, stream, event.event_, &reason), reason, "wait");
}

bool Device::done(Event const& event) const {
    EVENER_EXPECT(event.device_ == device_ && !event.empty());
    kernels::Reason reason;
    int const code = table_.memory->query(device_, event.event_, &reason);
    if (code == 1)
        return false;
    require(code, reason, "query");
    return true;
}

double Device::elapsed_seconds(Event const& begin, Event const& end) const {
    EVENER_EXPECT(begin.device_ == device_ && end.device_ == device_);
    kernels::Reason reason;
    double seconds = 0;
    require(table_.memory->elapsed(device_, begin.event_, end.event_, &seconds, &reason), reason,
            "elapsed");
    return seconds;
}

void Device::synchronize() const {
    if (!has_own_memory())
        return;
    Event const event = make_event();
    for (std::uint32_t stream = 0; stream < static_cast<std::uint32_t>(kernels::StreamKind::count);
         ++stream) {
        record(event, kernels::StreamKind{stream});
        kernels::Reason reason;
        require(table_.memory->synchronize(device_, event.event_, &reason), reason, "synchronize");
    }
}

} // namespace evener::device
