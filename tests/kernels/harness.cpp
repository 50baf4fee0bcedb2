// SPDX-License-Identifier: Apache-2.0

#include "harness.hpp"

#include "kernels/bfloat16.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

namespace evener::kernels::test {
namespace {

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

double read(Storage storage, std::byte const* at) {
    if (storage == Storage::float32)
        return get<float>(at);
    if (storage == Storage::bfloat16)
        return to_float(get<BFloat16>(at));
    if (storage == Storage::float64)
        return get<double>(at);
    return get<std::int32_t>(at);
}

/// Bytes on a cache line boundary, or `shift` bytes past one. Exactly as long as asked for, so that
/// a sanitizer sees what is read or written beyond.
class Buffer {
  public:
    Buffer(std::int64_t bytes, std::int64_t shift) {
        auto const all = static_cast<std::size_t>(bytes + shift);
        memory_.reset(static_cast<std::byte*>(::operator new (all, std::align_val_t{64})));
        begin_ = memory_.get() + shift;
    }
    std::byte* begin() const { return begin_; }

  private:
    struct Free {
        void operator()(std::byte* p) const { ::operator delete (p, std::align_val_t{64}); }
    };
    std::unique_ptr<std::byte, Free> memory_;
    std::byte* begin_;
};

std::uint64_t mix(std::uint64_t x) { // splitmix64
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/// Releases what it prepared.
class PreparedOperation {
  public:
    PreparedOperation(OpenTable const& open, OperationShape const& shape) : open_{open} {
        prepared_ = open.table().prepare(open.device(), &shape, &workspace_bytes, &reason);
    }
    ~PreparedOperation() {
        if (prepared_ != nullptr)
            open_.table().release(open_.device(), prepared_);
    }
    PreparedOperation(PreparedOperation const&) = delete;
    PreparedOperation& operator=(PreparedOperation const&) = delete;
    Prepared* get() const { return prepared_; }

    std::int64_t workspace_bytes = 0;
    Reason reason;

  private:
    OpenTable const& open_;
    Prepared* prepared_ = nullptr;
};

} // namespace

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

std::vector<std::vector<double>> run(OpenTable const& open, Case const& test, Addresses addresses) {
    std::vector<Buffer> buffers;
    std::vector<void*> pointers;
    for (Operand const& operand : test.operands) {
        std::int64_t const size = size_of(operand.storage);
        bool const shares = operand.same_as >= 0;
        buffers.emplace_back(shares ? 0 : operand.count * size,
                             addresses == Addresses::odd ? size : 0);
        std::byte* const begin = buffers.back().begin();
        if (operand.null)
            pointers.push_back(nullptr);
        else
            pointers.push_back(shares ? pointers[static_cast<std::size_t>(operand.same_as)]
                                      : begin);
        if (operand.null || shares)
            continue;
        if (operand.storage == Storage::scalars)
            put(begin, test.scalars);
        else
            for (std::int64_t i = 0; i < operand.count; ++i)
                write(operand.storage, begin + i * size, operand.fill(i));
    }

    PreparedOperation operation{open, test.shape};
    if (operation.get() == nullptr)
        throw std::runtime_error(operation.reason.text);
    Buffer const workspace{operation.workspace_bytes, 0};
    std::memset(workspace.begin(), 0xff,
                static_cast<std::size_t>(operation.workspace_bytes)); // NaN
    if (open.table().run(open.device(), operation.get(), pointers.data(), workspace.begin(),
                         &operation.reason) != 0)
        throw std::runtime_error(operation.reason.text);

    std::vector<std::vector<double>> results;
    for (std::size_t o = 0; o < test.operands.size(); ++o) {
        Operand const& operand = test.operands[o];
        auto& values = results.emplace_back();
        if (operand.null || operand.storage == Storage::scalars)
            continue;
        for (std::int64_t i = 0; i < operand.count; ++i)
            values.push_back(read(operand.storage, static_cast<std::byte*>(pointers[o]) +
                                                       i * size_of(operand.storage)));
    }
    return results;
}

std::string refusal(OpenTable const& open, OperationShape const& shape) {
    PreparedOperation const operation{open, shape};
    return operation.get() == nullptr ? operation.reason.text : "";
}

DeviceTable const* host_table() {
    char const* const chosen = std::getenv("EVENER_TEST_PLUGIN");
    std::string const path = chosen != nullptr ? chosen : EVENER_TEST_PLUGIN;
    auto const runs_here = [&] {
        if (path.find("x86-64-v4") != std::string::npos)
            return __builtin_cpu_supports("x86-64-v4") != 0;
        if (path.find("x86-64-v3") != std::string::npos)
            return __builtin_cpu_supports("x86-64-v3") != 0;
        return true;
    };
    if (!runs_here())
        return nullptr;
    static void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        throw std::runtime_error(dlerror());
    auto const function =
        reinterpret_cast<DeviceTableFunction>(dlsym(library, device_table_symbol));
    if (function == nullptr)
        throw std::runtime_error(dlerror());
    return function();
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
