// SPDX-License-Identifier: Apache-2.0

#include "harness.hpp"

#include "kernels/bfloat16.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <utility>

namespace evener::kernels::test {
namespace {

template <class T>
void put(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof value);
}
template <class T>
T get(std::byte const* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

double read(Storage storage, std::byte const* at) {
    if (storage == Storage::float32)
        return get<float>(at);
    if (storage == Storage::bfloat16)
        return to_float(get<BFloat16>(at));
    if (storage == Storage::float64)
        return get<double>(at);
    return get<std::int32_t>(at);
}

/// An operand: what the test fills and reads, and where the operation finds it, `shift` bytes past
/// a cache line. They are the same where the device has no memory of its own.
class Buffer {
  public:
    Buffer(OpenTable const& open, std::int64_t bytes, std::int64_t shift)
        : bytes_{bytes}, shift_{shift}, host_{open,
                                              open.table().memory ? Memory::Kind::pinned
                                                                  : Memory::Kind::host,
                                              bytes + shift} {
        if (open.table().memory != nullptr)
            device_.emplace(open, Memory::Kind::device, bytes + shift);
    }
    std::int64_t bytes() const { return bytes_; }
    std::byte* host() const { return host_.begin() + shift_; }
    std::byte* device() const { return (device_ ? *device_ : host_).begin() + shift_; }

  private:
    std::int64_t bytes_;
    std::int64_t shift_;
    Memory host_;
    std::optional<Memory> device_;
};

/// What comes on `stream` waits for all that is on `before`.
void follow(OpenTable const& open, StreamKind stream, StreamKind before) {
    TableEvent const event{open};
    event.record(before);
    event.hold_up(stream);
}

/// Copies around an operation, on streams of their own: the order comes from events alone. Nothing
/// where the device has no memory of its own.
class Transfers {
  public:
    explicit Transfers(OpenTable const& open) : open_{open} {}
    Transfers(Transfers const&) = delete;
    Transfers& operator=(Transfers const&) = delete;
    ~Transfers() { // what was enqueued before an exception still uses the buffers
        if (!needed())
            return;
        for (StreamKind const stream : {StreamKind::copy_in, StreamKind::compute}) {
            TableEvent const event{open_};
            event.record(stream);
            event.synchronize();
        }
    }

    void bring(std::vector<Buffer> const& buffers) const {
        if (!needed())
            return;
        for (Buffer const& buffer : buffers)
            copy(open_, StreamKind::copy_in, buffer.device(), buffer.host(), buffer.bytes());
        follow(open_, StreamKind::compute, StreamKind::copy_in);
    }

    /// Returns when the copies are there.
    void fetch(std::vector<Buffer> const& buffers) const {
        if (!needed())
            return;
        follow(open_, StreamKind::copy_out, StreamKind::compute);
        for (Buffer const& buffer : buffers)
            copy(open_, StreamKind::copy_out, buffer.host(), buffer.device(), buffer.bytes());
        TableEvent const event{open_};
        event.record(StreamKind::copy_out);
        event.synchronize();
    }

  private:
    bool needed() const { return open_.table().memory != nullptr; }

    OpenTable const& open_;
};

struct Plugin {
    DeviceTable const* table = nullptr;
    std::string unusable;
};

Plugin load_plugin() {
    char const* const chosen = std::getenv("EVENER_TEST_PLUGIN");
    std::string const path = chosen != nullptr ? chosen : EVENER_TEST_PLUGIN;
    auto const needs = [&](char const* level) { return path.find(level) != std::string::npos; };
    if ((needs("x86-64-v4") && !__builtin_cpu_supports("x86-64-v4")) ||
        (needs("x86-64-v3") && !__builtin_cpu_supports("x86-64-v3")))
        return {nullptr, "this CPU is below the level of the plug-in"};
    void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        throw std::runtime_error(dlerror());
    auto const function =
        reinterpret_cast<DeviceTableFunction>(dlsym(library, device_table_symbol));
    if (function == nullptr)
        throw std::runtime_error(dlerror());
    DeviceTable const* const table = function();
    Reason reason;
    if (table->memory != nullptr && table->memory->count_devices(&reason) == 0)
        return {nullptr, reason.text};
    return {table, ""};
}

Plugin const& plugin() {
    static Plugin const loaded = load_plugin();
    return loaded;
}

std::uint64_t mix(std::uint64_t x) { // splitmix64
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

} // namespace

std::int64_t size_of(Storage storage) {
    switch (storage) {
    case Storage::bfloat16:
        return 2;
    case Storage::float64:
        return 8;
    case Storage::scalars:
        return sizeof(OptimizerScalars);
    default:
        return 4;
    }
}

void write(Storage storage, std::byte* at, double value) {
    if (storage == Storage::float32)
        put(at, static_cast<float>(value));
    else if (storage == Storage::bfloat16)
        put(at, to_bfloat16(static_cast<float>(value)));
    else if (storage == Storage::float64)
        put(at, value);
    else
        put(at, static_cast<std::int32_t>(value));
}

std::function<double(std::int64_t)> noise(std::uint64_t seed, double scale, double offset) {
    return [=](std::int64_t i) {
        auto const bits = mix(seed * 0x1000003u + static_cast<std::uint64_t>(i)) >> 11;
        return offset + scale * (static_cast<double>(bits) * 0x1p-52 - 1);
    };
}

std::function<double(std::int64_t)> integers(std::uint64_t seed, std::int64_t bound) {
    return [=](std::int64_t i) {
        auto const bits = mix(seed * 0x1000003u + static_cast<std::uint64_t>(i));
        return static_cast<double>(bits %
                                   static_cast<std::uint64_t>(std::max<std::int64_t>(bound, 1)));
    };
}

std::function<double(std::int64_t)> constant(double value) {
    return [=](std::int64_t) { return value; };
}

OpenTable::OpenTable(DeviceTable const* table, int threads) : table_{table} {
    DeviceOptions const options{threads};
    Reason reason;
    device_ = table->open(&options, &reason);
    if (device_ == nullptr)
        throw std::runtime_error(reason.text);
}

OpenTable::~OpenTable() {
    table_->close(device_);
}

PreparedOperation::PreparedOperation(OpenTable const& open, OperationShape const& shape)
    : open_{open} {
    prepared_ = open.table().prepare(open.device(), &shape, &workspace_bytes, &reason);
}

PreparedOperation::~PreparedOperation() {
    if (prepared_ != nullptr)
        open_.table().release(open_.device(), prepared_);
}

Memory::Memory(OpenTable const& open, Kind kind, std::int64_t bytes) : open_{&open}, kind_{kind} {
    Reason reason;
    int failed = 0;
    MemoryTable const* const table = open.table().memory;
    if (kind == Kind::host)
        begin_ = ::operator new (static_cast<std::size_t>(bytes), std::align_val_t{64});
    else if (kind == Kind::pinned)
        failed = table->allocate_pinned(open.device(), std::max<std::int64_t>(bytes, 1), &begin_,
                                        &reason);
    else
        failed = table->allocate(open.device(), std::max<std::int64_t>(bytes, 1), &begin_, &reason);
    if (failed != 0)
        throw std::runtime_error(reason.text);
}

Memory::~Memory() {
    if (begin_ == nullptr)
        return;
    if (kind_ == Kind::host)
        ::operator delete (begin_, std::align_val_t{64});
    else if (kind_ == Kind::pinned)
        open_->table().memory->deallocate_pinned(open_->device(), begin_);
    else
        open_->table().memory->deallocate(open_->device(), begin_);
}

TableEvent::TableEvent(OpenTable const& open) : open_{open} {
    Reason reason;
    if (open.table().memory->create_event(open.device(), &event_, &reason) != 0)
        throw std::runtime_error(reason.text);
}

TableEvent::~TableEvent() {
    open_.table().memory->destroy_event(open_.device(), event_);
}

void TableEvent::record(StreamKind stream) const {
    Reason reason;
    if (open_.table().memory->record(open_.device(), event_, stream, &reason) != 0)
        throw std::runtime_error(reason.text);
}

void TableEvent::hold_up(StreamKind stream) const {
    Reason reason;
    if (open_.table().memory->wait(open_.device(), stream, event_, &reason) != 0)
        throw std::runtime_error(reason.text);
}

bool TableEvent::is_done() const {
    Reason reason;
    int const code = open_.table().memory->query(open_.device(), event_, &reason);
    if (code != 0 && code != 1)
        throw std::runtime_error(reason.text);
    return code == 0;
}

void TableEvent::synchronize() const {
    Reason reason;
    if (open_.table().memory->synchronize(open_.device(), event_, &reason) != 0)
        throw std::runtime_error(reason.text);
}

void copy(OpenTable const& open, StreamKind stream, void* dst, void const* src,
          std::int64_t bytes) {
    Reason reason;
    if (open.table().memory->copy(open.device(), stream, dst, src, bytes, &reason) != 0)
        throw std::runtime_error(reason.text);
}

std::vector<std::vector<double>> run(OpenTable const& open, Case const& test, Addresses addresses) {
    std::vector<Buffer> buffers;
    std::vector<void*> pointers; // on the device
    for (Operand const& operand : test.operands) {
        std::int64_t const size = size_of(operand.storage);
        bool const shares = operand.same_as >= 0;
        buffers.emplace_back(open, shares ? 0 : operand.count * size,
                             addresses == Addresses::odd ? size : 0);
        Buffer const& buffer = buffers.back();
        if (operand.null)
            pointers.push_back(nullptr);
        else
            pointers.push_back(shares ? pointers[static_cast<std::size_t>(operand.same_as)]
                                      : buffer.device());
        if (operand.null || shares)
            continue;
        if (operand.storage == Storage::scalars)
            put(buffer.host(), test.scalars);
        else
            for (std::int64_t i = 0; i < operand.count; ++i)
                write(operand.storage, buffer.host() + i * size, operand.fill(i));
    }

    PreparedOperation operation{open, test.shape};
    if (operation.get() == nullptr)
        throw std::runtime_error(operation.reason.text);
    buffers.emplace_back(open, operation.workspace_bytes, 64); // aligned to 64 bytes, no more
    std::byte* const workspace = buffers.back().host();
    std::memset(workspace, 0xff, static_cast<std::size_t>(operation.workspace_bytes)); // NaN
    {
        Transfers const transfers{open};
        transfers.bring(buffers);
        if (open.table().run(open.device(), operation.get(), pointers.data(),
                             buffers.back().device(), &operation.reason) != 0)
            throw std::runtime_error(operation.reason.text);
        transfers.fetch(buffers);
    }

    std::vector<std::vector<double>> results;
    for (std::size_t o = 0; o < test.operands.size(); ++o) {
        Operand const& operand = test.operands[o];
        auto& values = results.emplace_back();
        if (operand.null || operand.storage == Storage::scalars)
            continue;
        auto const at = static_cast<std::size_t>(operand.same_as);
        std::byte const* const begin = buffers[operand.same_as >= 0 ? at : o].host();
        for (std::int64_t i = 0; i < operand.count; ++i)
            values.push_back(read(operand.storage, begin + i * size_of(operand.storage)));
    }
    return results;
}

std::string refusal(OpenTable const& open, OperationShape const& shape) {
    PreparedOperation const operation{open, shape};
    return operation.get() == nullptr ? operation.reason.text : "";
}

DeviceTable const* plugin_table() {
    return plugin().table;
}

std::string why_unusable() {
    return plugin().unusable;
}

int test_threads() {
    char const* const chosen = std::getenv("EVENER_TEST_THREADS");
    return chosen != nullptr ? std::atoi(chosen) : 2;
}

char const* name_of(OperationKind kind) {
    static constexpr char const* names[] = {"matmul",
                                            "rms_norm",
                                            "rms_norm_backward",
                                            "rms_norm_weight_gradient",
                                            "rotary",
                                            "attention",
                                            "attention_backward",
                                            "swiglu",
                                            "swiglu_backward",
                                            "embedding",
                                            "embedding_gradient",
                                            "cross_entropy",
                                            "adamw",
                                            "sgd",
                                            "convert",
                                            "clear",
                                            "column_sums",
                                            "segment_sums",
                                            "sum_squares"};
    static_assert(std::size(names) == static_cast<std::size_t>(OperationKind::count));
    return names[static_cast<std::size_t>(kind)];
}

} // namespace evener::kernels::test
