// SPDX-License-Identifier: Apache-2.0

// The device tables themselves: identity, coverage, refusals.

#include "kernels/build_id.hpp"
#include "kernels/reference/reference.hpp"

#include "harness.hpp"
#include <gtest/gtest.h>

#include <thread>

namespace evener::kernels::test {
namespace {

OperationShape shape_of(OperationKind kind) {
    OperationShape shape;
    shape.kind = kind;
    switch (kind) {
    case OperationKind::matmul:
        shape.matmul = {2, 3, 4};
        break;
    case OperationKind::rms_norm:
    case OperationKind::rms_norm_backward:
    case OperationKind::rms_norm_weight_gradient:
        shape.rms_norm = {2, 3};
        break;
    case OperationKind::rotary:
        shape.rotary = {2, 2, 1, 1, 2};
        break;
    case OperationKind::attention:
    case OperationKind::attention_backward:
        shape.attention = {1, 2, 2, 1, 3};
        break;
    case OperationKind::swiglu:
    case OperationKind::swiglu_backward:
        shape.swiglu = {2, 3};
        break;
    case OperationKind::embedding:
    case OperationKind::embedding_gradient:
        shape.embedding = {2, 3, 4};
        break;
    case OperationKind::cross_entropy:
        shape.cross_entropy = {2, 3};
        break;
    case OperationKind::adamw:
    case OperationKind::sgd:
        shape.optimizer = {5};
        break;
    case OperationKind::convert:
        shape.convert = {5};
        break;
    case OperationKind::column_sums:
        shape.column_sums = {2, 3};
        break;
    case OperationKind::segment_sums:
        shape.segment_sums = {2, 3};
        break;
    case OperationKind::sum_squares:
        shape.sum_squares = {5};
        break;
    case OperationKind::clear:
    case OperationKind::count:
        break;
    }
    return shape;
}

std::vector<DeviceTable const*> tables() {
    std::vector<DeviceTable const*> all{reference::reference_table()};
    if (DeviceTable const* const plugin = plugin_table(); plugin != nullptr)
        all.push_back(plugin);
    return all;
}

TEST(Table, SaysWhatItIs) {
    for (DeviceTable const* const table : tables()) {
        EXPECT_EQ(table->version, table_version);
        EXPECT_STREQ(table->build_id, EVENER_BUILD_ID);
        EXPECT_STRNE(table->description, "");
    }
    EXPECT_STREQ(tables().front()->kind, "reference");
    DeviceTable const& last = *tables().back();
    EXPECT_EQ(std::string{last.kind} == "cuda", last.memory != nullptr);
}

TEST(Table, PreparesEveryOperation) {
    for (DeviceTable const* const table : tables()) {
        OpenTable const open{table, 1};
        for (std::uint32_t kind = 0; kind < static_cast<std::uint32_t>(OperationKind::count);
             ++kind)
            EXPECT_EQ(refusal(open, shape_of(static_cast<OperationKind>(kind))), "")
                << table->kind << ", " << name_of(static_cast<OperationKind>(kind));
    }
}

TEST(Table, RefusesShapesWithAReason) {
    for (DeviceTable const* const table : tables()) {
        OpenTable const open{table, 1};
        OperationShape shape = shape_of(OperationKind::matmul);
        shape.matmul.k = -1;
        EXPECT_EQ(refusal(open, shape), "k is -1 (a size cannot be negative)");
        shape.matmul.k = 1;
        shape.matmul.accumulate = shape.matmul.bias = true;
        EXPECT_EQ(refusal(open, shape),
                  "a product that accumulates takes neither bias nor residual");
        shape = shape_of(OperationKind::matmul);
        shape.matmul.dst = Element::bfloat16;
        EXPECT_EQ(refusal(open, shape),
                  "the product of float32 matrices is written as float32 only");
        shape = shape_of(OperationKind::rotary);
        shape.rotary.head_size = 5;
        EXPECT_EQ(refusal(open, shape),
                  "head_size is 5 (rotary embedding turns pairs; use an even size)");
        shape = shape_of(OperationKind::attention);
        shape.attention.query_heads = 5;
        shape.attention.key_heads = 2;
        EXPECT_EQ(refusal(open, shape), "5 query heads cannot share 2 key heads (not a multiple)");
        shape.kind = OperationKind::count;
        EXPECT_EQ(refusal(open, shape), "operation kind 19 is unknown to this build");
    }
}

TEST(HostTable, OpensOnceAtATimeAndAgainAfterClosing) {
    if (plugin_table() == nullptr || plugin_table()->memory != nullptr)
        GTEST_SKIP() << "the plug-in is not the host's, or this CPU is below its level";
    {
        OpenTable const first{plugin_table(), 2};
        try {
            OpenTable const second{plugin_table(), 2};
            FAIL() << "opened twice";
        } catch (std::runtime_error const& error) {
            EXPECT_STREQ(error.what(),
                         "the host device is open already (once per process at a time)");
        }
    }
    OpenTable const again{plugin_table(), 1};
    EXPECT_EQ(refusal(again, shape_of(OperationKind::matmul)), "");
    EXPECT_THROW((OpenTable{plugin_table(), 0}), std::runtime_error);
}

TEST(HostTable, RunsOnItsOwnThreadOnly) {
    if (plugin_table() == nullptr || plugin_table()->memory != nullptr)
        GTEST_SKIP() << "the plug-in is not the host's, or this CPU is below its level";
    OpenTable const open{plugin_table(), 1};
    OperationShape const shape = shape_of(OperationKind::clear);
    Reason reason;
    std::int64_t bytes = 0;
    Prepared* const prepared = open.table().prepare(open.device(), &shape, &bytes, &reason);
    void* operands[]{nullptr};
    int result = 0;
    std::thread{[&] {
        result = open.table().run(open.device(), prepared, operands, nullptr, &reason);
    }}.join();
    EXPECT_EQ(result, 1);
    EXPECT_STREQ(reason.text, "operations run on the thread that opened the host device only");
    open.table().release(open.device(), prepared);
}

} // namespace
} // namespace evener::kernels::test
