// SPDX-License-Identifier: Apache-2.0

// Rotary position embedding with a table of cosines and sines made when the operation is prepared.

#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"

#include <cmath>
#include <vector>

namespace evener::kernels::host {
namespace {

/// Angles of all positions, [sequence_length, head_size / 2].
struct Turns {
    explicit Turns(RotaryShape const& shape) {
        std::int64_t const half = shape.head_size / 2;
        auto const count = static_cast<std::size_t>(shape.sequence_length * half);
        cosines.reserve(count);
        sines.reserve(count);
        for (std::int64_t p = 0; p < shape.sequence_length; ++p) {
            for (std::int64_t i = 0; i < half; ++i) {
                double const power =
                    -2.0 * static_cast<double>(i) / static_cast<double>(shape.head_size);
                double const angle = static_cast<double>(p) * std::pow(shape.theta, power);
                cosines.push_back(static_cast<float>(std::cos(angle)));
                double const sine = std::sin(angle);
                sines.push_back(static_cast<float>(shape.inverse ? -sine : sine));
            }
        }
    }

    std::vector<float> cosines;
    std::vector<float> sines;
};

} // namespace

OperationPtr make_rotary(RotaryShape const& shape, Context const& context) {
    auto const turns = std::make_shared<Turns const>(shape);
    return with_type(shape.type, [&]<class T>(T) {
        return make_operation([s = shape, threads = context.threads, turns](Operands in,
                                                                            std::byte*) {
            std::int64_t const half = s.head_size / 2;
            std::int64_t const turned = s.query_heads + s.key_heads;
            std::int64_t const cols = (turned + s.key_heads) * s.head_size;
            over_ranges(threads, s.rows, row_grain(cols), [&](auto begin, auto end) {
                for (std::int64_t r = begin; r < end; ++r) {
                    std::int64_t const position = r % s.sequence_length * half;
                    float const* const cosines = turns->cosines.data() + position;
                    float const* const sines = turns->sines.data() + position;
                    for (std::int64_t h = 0; h < turned; ++h) {
                        T* const low = in.at<T>(RotaryOperand::qkv) + r * cols + h * s.head_size;
                        T* const high = low + half;
                        over(0, half, [&](auto i, auto part) {
                            Floats const cosine = load(cosines + i, part);
                            Floats const sine = load(sines + i, part);
                            Floats const x0 = load(low + i, part);
                            Floats const x1 = load(high + i, part);
                            store(low + i, x0 * cosine - x1 * sine, part);
                            store(high + i, x1 * cosine + x0 * sine, part);
                        });
                    }
                }
            });
        });
    });
}

} // namespace evener::kernels::host
