// SPDX-License-Identifier: Apache-2.0
#pragma once

// The rate of one matrix product on a device: the unit in which speed is reported and by which
// layers are dealt to ranks of different speed.

#include "device/device.hpp"

namespace evener::device {

struct MatrixProduct {
    std::int64_t m = 0;
    std::int64_t n = 0;
    std::int64_t k = 0;
    core::DType type = core::DType::float32; ///< of a, b and dst
};

/// GF/s (1e9 floating point operations per second, 2 m n k per product) of the best of `runs`
/// timed runs after one that warms up. Sizes > 0. Throws core::DeviceError.
double matrix_rate_gflops(Device const& device, MatrixProduct const& product, int runs = 5);

} // namespace evener::device
