// SPDX-License-Identifier: Apache-2.0

// Conversions and sums of vectors and matrices.

#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/row_blocks.hpp"
#include "kernels/host/simd.hpp"

namespace evener::kernels::host {
namespace {

constexpr std::int64_t squares_block = 16384; // elements whose squares are added by one thread
constexpr std::int64_t double_lanes = lanes / 2;
using Doubles [[gnu::vector_size(double_lanes * 8)]] = double;
using HalfFloats [[gnu::vector_size(double_lanes * 4)]] = float;

double sum_of_squares(float const* src, std::int64_t count) {
    Doubles partial[4] = {};
    std::int64_t i = 0;
    for (; i + 4 * double_lanes <= count; i += 4 * double_lanes) {
        for (std::int64_t u = 0; u < 4; ++u) {
            auto const bits = load_bytes<HalfFloats>(src + i + u * double_lanes);
            auto const value = __builtin_convertvector(bits, Doubles);
            partial[u] += value * value;
        }
    }
    Doubles const together = (partial[0] + partial[1]) + (partial[2] + partial[3]);
    double total = 0;
    for (std::int64_t lane = 0; lane < double_lanes; ++lane)
        total += together[lane];
    for (; i < count; ++i)
        total += static_cast<double>(src[i]) * src[i];
    return total;
}

} // namespace

OperationPtr make_convert(ConvertShape const& shape, Context const& context) {
    using O = ConvertOperand;
    return with_type(shape.src, [&]<class S>(S) {
        return with_type(shape.dst, [&]<class D>(D) {
            return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
                auto const* const src = in.at<S>(O::src);
                auto* const dst = in.at<D>(O::dst);
                over_ranges(threads, s.elements, element_grain, [&](auto begin, auto end) {
                    if constexpr (std::is_same_v<S, D>)
                        std::copy(src + begin, src + end, dst + begin);
                    else
                        over(begin, end,
                             [&](auto i, auto part) { store(dst + i, load(src + i, part), part); });
                });
            });
        });
    });
}

OperationPtr make_clear(ClearShape const& shape, Context const& context) {
    return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
        auto* const dst = in.at<std::byte>(ClearOperand::dst);
        over_ranges(threads, s.bytes, 4 * element_grain, [&](auto begin, auto end) {
            std::memset(dst + begin, 0, static_cast<std::size_t>(end - begin));
        });
    });
}

OperationPtr make_column_sums(ColumnSumsShape const& shape, Context const& context) {
    using O = ColumnSumsOperand;
    return with_type(shape.type, [&]<class T>(T) {
        auto const body = [s = shape, threads = context.threads](Operands in,
                                                                 std::byte* workspace) {
            auto const* const src = in.at<T>(O::src);
            auto const term = [&](std::int64_t r, std::int64_t c, auto part) {
                return load(src + r * s.cols + c, part);
            };
            add_rows({s.rows, s.cols, threads}, term, in.at<float>(O::dst), workspace);
        };
        return make_operation(body, row_blocks_bytes(shape.rows, shape.cols));
    });
}

OperationPtr make_segment_sums(SegmentSumsShape const& shape, Context const&) {
    using O = SegmentSumsOperand;
    return make_operation([s = shape](Operands in, std::byte*) {
        auto const* src = in.at<float>(O::src);
        for (std::int64_t segment = 0; segment < s.segments; ++segment) {
            double total = 0;
            for (std::int64_t i = 0; i < s.length; ++i)
                total += *src++;
            in.at<double>(O::dst)[segment] = total;
        }
    });
}

OperationPtr make_sum_squares(SumSquaresShape const& shape, Context const& context) {
    using O = SumSquaresOperand;
    std::int64_t const blocks = (shape.elements + squares_block - 1) / squares_block;
    auto const body = [s = shape, blocks, threads = context.threads](Operands in,
                                                                     std::byte* workspace) {
        auto const* const src = in.at<float>(O::src);
        auto* const partial = reinterpret_cast<double*>(workspace);
        over_ranges(threads, blocks, 1, [&](auto begin, auto end) {
            for (std::int64_t block = begin; block < end; ++block) {
                std::int64_t const first = block * squares_block;
                partial[block] =
                    sum_of_squares(src + first, std::min(squares_block, s.elements - first));
            }
        });
        double total = 0;
        for (std::int64_t block = 0; block < blocks; ++block)
            total += partial[block];
        *in.at<double>(O::dst) = total;
    };
    return make_operation(body, blocks * 8);
}

} // namespace evener::kernels::host
