// SPDX-License-Identifier: Apache-2.0

// Rotary position embedding: turns the pair (x[i], x[i + head_size/2]) of each query and key head.

#include "kernels/reference/operations.hpp"

#include <cmath>

namespace evener::kernels::reference {

template <class T>
void rotary(RotaryShape const& shape, T* qkv) {
    std::int64_t const half = shape.head_size / 2;
    std::int64_t const turned = shape.query_heads + shape.key_heads;
    std::int64_t const cols = (turned + shape.key_heads) * shape.head_size;
    for (std::int64_t r = 0; r < shape.rows; ++r) {
        auto const position = static_cast<double>(r % shape.sequence_length);
        for (std::int64_t h = 0; h < turned; ++h) {
            T* const head = qkv + r * cols + h * shape.head_size;
            for (std::int64_t i = 0; i < half; ++i) {
                double const power =
                    -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_size);
                double const angle = position * std::pow(shape.theta, power);
                double const cosine = std::cos(angle);
                double const sine = shape.inverse ? -std::sin(angle) : std::sin(angle);
                double const x0 = load(head[i]);
                double const x1 = load(head[i + half]);
                head[i] = round_to<T>(x0 * cosine - x1 * sine);
                head[i + half] = round_to<T>(x1 * cosine + x0 * sine);
            }
        }
    }
}

template void rotary(RotaryShape const&, float*);
template void rotary(RotaryShape const&, BFloat16*);
template void rotary(RotaryShape const&, double*);

} // namespace evener::kernels::reference
