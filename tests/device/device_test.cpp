// SPDX-License-Identifier: Apache-2.0

// The device interface, over the reference and over a table that refuses.

#include "device/device.hpp"
#include "device/matrix_rate.hpp"
#include "device/plugin.hpp"
#include "support/message.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <thread>

namespace evener::device {
namespace {

kernels::OperationShape matmul(std::int64_t m, std::int64_t n, std::int64_t k) {
    kernels::OperationShape shape;
    shape.kind = kernels::OperationKind::matmul;
    shape.matmul = {};
    shape.matmul.m = m;
    shape.matmul.n = n;
    shape.matmul.k = k;
    return shape;
}

TEST(Device, RunsAPreparedOperation) {
    auto const device = open_device(Backend::reference, {1});
    EXPECT_EQ(device->kind(), "reference");
    PreparedOperation const product = device->prepare(matmul(2, 1, 3));
    EXPECT_EQ(product.kind(), kernels::OperationKind::matmul);
    std::array<float, 6> a{1, 2, 3, 4, 5, 6};
    std::array<float, 3> b{1, 10, 100};
    std::array<float, 2> dst{};
    std::array<void*, 5> const operands{a.data(), b.data(), nullptr, nullptr, dst.data()};
    device->run(product, operands, nullptr);
    EXPECT_EQ(dst, (std::array<float, 2>{321, 654}));
}

TEST(Device, RefusedShapeNamesOperationAndReason) {
    auto const device = open_device(Backend::reference, {1});
    auto shape = matmul(2, -1, 3);
    support::expect_error<core::DeviceError>(
        [&] { device->prepare(shape); },
        "device 'reference' cannot compute this matmul (n is -1 (a size cannot be negative))");
}

TEST(Device, OperandsAreCountedAndOperationsMustBeThere) {
    auto const device = open_device(Backend::reference, {1});
    PreparedOperation product = device->prepare(matmul(1, 1, 1));
    std::array<void*, 4> const operands{};
    EXPECT_THROW(device->run(product, operands, nullptr), core::ContractViolation);
    std::array<void*, 5> const all{};
    PreparedOperation const moved = std::move(product);
    EXPECT_TRUE(product.empty()); // NOLINT: what a move leaves is stated
    EXPECT_THROW(device->run(product, all, nullptr), core::ContractViolation);
}

TEST(Device, EveryKindOfOperationHasANameAndOperands) {
    for (int i = 0; i < static_cast<int>(kernels::OperationKind::count); ++i) {
        auto const kind = static_cast<kernels::OperationKind>(i);
        EXPECT_FALSE(name_of(kind).empty());
        EXPECT_GE(operand_count(kind), 1);
    }
    EXPECT_EQ(name_of(kernels::OperationKind::sum_squares), "sum_squares");
    EXPECT_EQ(name_of(kernels::OperationKind::sgd), "sgd");
    EXPECT_EQ(operand_count(kernels::OperationKind::attention_backward),
              static_cast<int>(kernels::AttentionBackwardOperand::count));
}

/// A table whose device cannot be opened, or fails in run; counts what it gave away.
int prepared_alive = 0;

kernels::DeviceTable failing_table(bool opens) {
    kernels::DeviceTable table{};
    table.version = kernels::table_version;
    table.build_id = "";
    table.kind = "failing";
    table.description = "";
    if (opens)
        table.open = [](kernels::DeviceOptions const*, kernels::Reason*) {
            static int device = 0;
            return reinterpret_cast<kernels::Device*>(&device);
        };
    else
        table.open = [](kernels::DeviceOptions const*, kernels::Reason* reason) {
            std::snprintf(reason->text, sizeof reason->text, "no such hardware");
            return static_cast<kernels::Device*>(nullptr);
        };
    table.close = [](kernels::Device*) {};
    table.prepare = [](kernels::Device* device, kernels::OperationShape const*,
                       std::int64_t* workspace_bytes, kernels::Reason*) {
        ++prepared_alive;
        *workspace_bytes = 128;
        return reinterpret_cast<kernels::Prepared*>(device);
    };
    table.release = [](kernels::Device*, kernels::Prepared*) { --prepared_alive; };
    table.run = [](kernels::Device*, kernels::Prepared*, void* const*, void*,
                   kernels::Reason* reason) {
        std::snprintf(reason->text, sizeof reason->text, "out of luck");
        return 7;
    };
    return table;
}

TEST(Device, ThatCannotBeOpenedGivesTheReason) {
    auto const table = failing_table(false);
    support::expect_error<core::DeviceError>(
        [&] {
            Device{table, {1}};
        },
        "device 'failing' cannot be opened (no such hardware)");
}

TEST(Device, FailureInRunGivesCodeAndReason) {
    auto const table = failing_table(true);
    Device const device{table, {1}};
    PreparedOperation const clear = device.prepare({});
    EXPECT_EQ(clear.workspace_bytes(), 128);
    alignas(64) std::array<std::byte, 128> workspace;
    std::array<void*, 1> const operands{workspace.data()};
    support::expect_error<core::DeviceError>(
        [&] { device.run(clear, operands, workspace.data()); },
        "device 'failing' failed in clear (code 7: out of luck)");
    EXPECT_THROW(device.run(clear, operands, workspace.data() + 4), core::ContractViolation);
    EXPECT_THROW(device.run(clear, operands, nullptr), core::ContractViolation);
}

TEST(Device, PreparedOperationsAreReleasedOnce) {
    auto const table = failing_table(true);
    Device const device{table, {1}};
    {
        PreparedOperation first = device.prepare({});
        PreparedOperation second = device.prepare({});
        EXPECT_EQ(prepared_alive, 2);
        second = std::move(first);
        EXPECT_EQ(prepared_alive, 1);
    }
    EXPECT_EQ(prepared_alive, 0);
}

TEST(MatrixRate, IsTwoOperationsPerProductOverTheTimeOfTheBestRun) {
    auto table = failing_table(true);
    table.run = [](kernels::Device*, kernels::Prepared*, void* const*, void*, kernels::Reason*) {
        static int run = 0; // the fourth of six is the best
        std::this_thread::sleep_for(std::chrono::milliseconds{++run == 4 ? 20 : 60});
        return 0;
    };
    Device const device{table, {1}};
    double const bound = 2.0 * 100 * 200 * 300 / 0.020 / 1e9;
    double const rate = matrix_rate_gflops(device, {100, 200, 300}, 5);
    EXPECT_LE(rate, bound);
    EXPECT_GT(rate, bound / 2.9);
}

TEST(MatrixRate, IsMeasuredInBothTypes) {
    auto const device = open_device(Backend::reference, {1});
    for (core::DType const type : {core::DType::float32, core::DType::bfloat16})
        EXPECT_GT(matrix_rate_gflops(*device, {31, 29, 37, type}, 3), 0.0);
}

} // namespace
} // namespace evener::device
