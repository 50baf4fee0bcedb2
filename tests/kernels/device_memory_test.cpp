// SPDX-License-Identifier: Apache-2.0

// A plug-in whose devices have a memory of their own: what it says of them, memory, copies, events.

#include "harness.hpp"
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <thread>

namespace evener::kernels::test {
namespace {

class DeviceMemory : public testing::Test {
  public:
    void SetUp() override {
        if (plugin_table() == nullptr)
            GTEST_SKIP() << why_unusable();
        if (plugin_table()->memory == nullptr)
            GTEST_SKIP() << "the plug-in's devices have no memory of their own";
        open_.emplace(plugin_table(), 1);
    }

    MemoryTable const& table() const { return *open_->table().memory; }
    OpenTable const& open() const { return *open_; }

  private:
    std::optional<OpenTable> open_;
};

TEST_F(DeviceMemory, DescribesEveryDevice) {
    Reason reason;
    int const devices = table().count_devices(&reason);
    ASSERT_GE(devices, 1);
    for (int ordinal = 0; ordinal < devices; ++ordinal) {
        DeviceFacts facts;
        ASSERT_EQ(table().describe(ordinal, &facts, &reason), 0) << reason.text;
        EXPECT_STRNE(facts.name, "");
        EXPECT_NE(std::strchr(facts.bus_id, ':'), nullptr) << facts.bus_id;
        EXPECT_GT(facts.memory_bytes, 0);
        EXPECT_GE(10 * facts.capability_major + facts.capability_minor, 75);
        EXPECT_NE(std::string{open().table().description}.find("CUDA run time"), std::string::npos);
    }
    DeviceFacts facts;
    EXPECT_NE(table().describe(devices, &facts, &reason), 0);
    EXPECT_EQ(std::string{reason.text}.find("cudaGetDeviceProperties failed (cudaErrorInvalidDevi"),
              0u)
        << reason.text;
}

TEST_F(DeviceMemory, OpensNoDeviceThatIsNotThere) {
    DeviceOptions options;
    options.ordinal = 100;
    Reason reason;
    EXPECT_EQ(open().table().open(&options, &reason), nullptr);
    EXPECT_EQ(std::string{reason.text}.find("there is no CUDA device 100 (this process sees "), 0u)
        << reason.text;
}

TEST_F(DeviceMemory, CopiesFollowEvents) {
    constexpr std::int64_t bytes = 100003;
    Memory const from{open(), Memory::Kind::pinned, bytes};
    Memory const there{open(), Memory::Kind::device, bytes};
    Memory const further{open(), Memory::Kind::device, bytes};
    Memory const to{open(), Memory::Kind::pinned, bytes};
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(there.begin()) % 256, 0u);
    for (std::int64_t i = 0; i < bytes; ++i)
        from.begin()[i] = static_cast<std::byte>(i * 7 % 251);

    TableEvent const brought{open()};
    TableEvent const moved{open()};
    TableEvent const fetched{open()};
    copy(open(), StreamKind::copy_in, there.begin(), from.begin(), bytes);
    brought.record(StreamKind::copy_in);
    brought.hold_up(StreamKind::compute);
    copy(open(), StreamKind::compute, further.begin(), there.begin(), bytes);
    moved.record(StreamKind::compute);
    moved.hold_up(StreamKind::copy_out);
    copy(open(), StreamKind::copy_out, to.begin(), further.begin(), bytes);
    fetched.record(StreamKind::copy_out);
    fetched.synchronize();

    EXPECT_TRUE(brought.is_done());
    EXPECT_TRUE(fetched.is_done());
    EXPECT_EQ(std::memcmp(from.begin(), to.begin(), bytes), 0);
    double seconds = -1;
    Reason reason;
    EXPECT_EQ(table().elapsed(open().device(), brought.get(), fetched.get(), &seconds, &reason), 0)
        << reason.text;
    EXPECT_GE(seconds, 0);
}

TEST_F(DeviceMemory, AnEventThatWasNeverRecordedIsDone) {
    TableEvent const event{open()};
    EXPECT_TRUE(event.is_done());
    event.synchronize();
    event.hold_up(StreamKind::compute);
}

TEST_F(DeviceMemory, AskingLeadsToTheEnd) {
    constexpr std::int64_t bytes = 1 << 16;
    Memory const from{open(), Memory::Kind::pinned, bytes};
    Memory const there{open(), Memory::Kind::device, bytes};
    std::memset(from.begin(), 1, bytes);
    TableEvent const event{open()};
    copy(open(), StreamKind::copy_in, there.begin(), from.begin(), bytes);
    event.record(StreamKind::copy_in);
    while (!event.is_done())
        std::this_thread::yield();
}

TEST_F(DeviceMemory, OperationsReadAndWritePinnedMemory) {
    constexpr std::int64_t elements = 1001;
    OperationShape shape;
    shape.kind = OperationKind::convert;
    shape.convert = {elements, Element::float32, Element::float32};
    Memory const src{open(), Memory::Kind::pinned, elements * 4};
    Memory const dst{open(), Memory::Kind::pinned, elements * 4};
    for (std::int64_t i = 0; i < elements; ++i) {
        auto const value = static_cast<float>(i);
        std::memcpy(src.begin() + 4 * i, &value, 4);
    }
    Reason reason;
    std::int64_t workspace = 0;
    Prepared* const prepared = open().table().prepare(open().device(), &shape, &workspace, &reason);
    ASSERT_NE(prepared, nullptr) << reason.text;
    void* operands[]{src.begin(), dst.begin()};
    ASSERT_EQ(open().table().run(open().device(), prepared, operands, nullptr, &reason), 0)
        << reason.text;
    TableEvent const event{open()};
    event.record(StreamKind::compute);
    event.synchronize();
    EXPECT_EQ(std::memcmp(src.begin(), dst.begin(), elements * 4), 0);
    open().table().release(open().device(), prepared);
}

TEST_F(DeviceMemory, ASecondThreadMayCall) {
    constexpr std::int64_t bytes = 4096;
    Memory const from{open(), Memory::Kind::pinned, bytes};
    Memory const there{open(), Memory::Kind::device, bytes};
    Memory const to{open(), Memory::Kind::pinned, bytes};
    std::memset(from.begin(), 42, bytes);
    TableEvent const brought{open()};
    TableEvent const fetched{open()};
    std::atomic<bool> recorded{false};
    std::thread transport{[&] {
        while (!recorded)
            std::this_thread::yield();
        brought.hold_up(StreamKind::copy_out);
        copy(open(), StreamKind::copy_out, to.begin(), there.begin(), bytes);
        fetched.record(StreamKind::copy_out);
        while (!fetched.is_done())
            std::this_thread::yield();
    }};
    copy(open(), StreamKind::copy_in, there.begin(), from.begin(), bytes);
    brought.record(StreamKind::copy_in);
    recorded = true;
    transport.join();
    EXPECT_EQ(std::memcmp(from.begin(), to.begin(), bytes), 0);
}

TEST_F(DeviceMemory, SaysWhenThereIsNoMoreAndGoesOn) {
    Reason reason;
    std::int64_t free = 0;
    ASSERT_EQ(table().free_bytes(open().device(), &free, &reason), 0) << reason.text;
    ASSERT_GT(free, 0);
    try {
        Memory const much{open(), Memory::Kind::device, free + (std::int64_t{1} << 30)};
        FAIL() << "allocated more than is free";
    } catch (std::runtime_error const& error) {
        EXPECT_EQ(std::string{error.what()}.find("cudaMalloc failed (cudaErrorMemoryAllocation: "),
                  0u)
            << error.what();
    }
    Memory const little{open(), Memory::Kind::device, 1024};
    EXPECT_NE(little.begin(), nullptr);
}

} // namespace
} // namespace evener::kernels::test
