// SPDX-License-Identifier: Apache-2.0
#include "device/matrix_rate.hpp"

#include "device/arena.hpp"
#include "device/memory.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <vector>

namespace evener::device {

namespace {

/// Ones: products of zeros, denormals or NaN may take another time than those of numbers.
void fill_with_ones(Device const& device, std::byte* data, std::int64_t elements,
                    core::DType type) {
    if (type == core::DType::float32) {
        std::vector<float> const ones(static_cast<std::size_t>(elements), 1.0f);
        upload(device, data, ones.data(), 4 * elements);
    } else {
        std::vector<std::uint16_t> const ones(static_cast<std::size_t>(elements),
                                              core::to_bfloat16(1.0f));
        upload(device, data, ones.data(), 2 * elements);
    }
}

} // namespace

double matrix_rate_gflops(Device const& device, MatrixProduct const& product, int runs) {
    auto const [m, n, k, type] = product;
    EVENER_EXPECT(m > 0 && n > 0 && k > 0 && runs > 0);
    kernels::OperationShape shape;
    shape.kind = kernels::OperationKind::matmul;
    shape.matmul = {};
    shape.matmul.m = m;
    shape.matmul.n = n;
    shape.matmul.k = k;
    shape.matmul.src = element_of(type);
    shape.matmul.dst = element_of(type);
    PreparedOperation const operation = device.prepare(shape);

    std::int64_t const a = 0;
    std::int64_t const b = core::round_up(a + m * k * core::bytes_of(type), 64);
    std::int64_t const dst = core::round_up(b + k * n * core::bytes_of(type), 64);
    std::int64_t const workspace = core::round_up(dst + m * n * core::bytes_of(type), 64);
    Arena const arena{device, workspace + operation.workspace_bytes()};
    fill_with_ones(device, arena.at(a), m * k, type);
    fill_with_ones(device, arena.at(b), k * n, type);
    std::array<void*, kernels::MatmulOperand::count> operands{};
    operands[kernels::MatmulOperand::a] = arena.at(a);
    operands[kernels::MatmulOperand::b] = arena.at(b);
    operands[kernels::MatmulOperand::dst] = arena.at(dst);

    using Clock = std::chrono::steady_clock;
    device.run(operation, operands, arena.at(workspace));
    device.synchronize();
    double best_seconds = 0;
    for (int run = 0; run < runs; ++run) {
        auto const start = Clock::now();
        device.run(operation, operands, arena.at(workspace));
        device.synchronize();
        double const seconds = std::chrono::duration<double>(Clock::now() - start).count();
        best_seconds = run == 0 ? seconds : std::min(best_seconds, seconds);
    }
    // A product too short for the clock counts as one tick.
    best_seconds = std::max(best_seconds, 1e-9);
    return 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) / 1e9 /
           best_seconds;
}

} // namespace evener::device
