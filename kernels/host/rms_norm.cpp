// SPDX-License-Identifier: Apache-2.0

// Root-mean-square normalization: rows over threads; the weight gradient over fixed blocks of rows.

#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/row_blocks.hpp"
#include "kernels/host/simd.hpp"

#include <cmath>

namespace evener::kernels::host {

OperationPtr make_rms_norm(RmsNormShape const& shape, Context const& context) {
    using O = RmsNormOperand;
    return with_type(shape.type, [&]<class T>(T) {
        return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
            auto const* const weight = in.at<T>(O::weight);
            auto* const rstd = in.at<float>(O::rstd);
            over_ranges(threads, s.rows, row_grain(s.cols), [&](auto begin, auto end) {
                for (std::int64_t r = begin; r < end; ++r) {
                    T const* const x = in.at<T>(O::x) + r * s.cols;
                    T* const y = in.at<T>(O::y) + r * s.cols;
                    if (!s.rstd_given) {
                        float const squares = sum_over(s.cols, [&](auto c, auto part) {
                            Floats const value = load(x + c, part);
                            return value * value;
                        });
                        auto const count = static_cast<float>(std::max<std::int64_t>(s.cols, 1));
                        rstd[r] = 1 / std::sqrt(squares / count + s.epsilon);
                    }
                    Floats const scale = broadcast(rstd[r]);
                    over(0, s.cols, [&](auto c, auto part) {
                        store(y + c, load(x + c, part) * scale * load(weight + c, part), part);
                    });
                }
            });
        });
    });
}

OperationPtr make_rms_norm_backward(RmsNormShape const& shape, Context const& context) {
    using O = RmsNormBackwardOperand;
    return with_type(shape.type, [&]<class T>(T) {
        return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
            auto const* const weight = in.at<T>(O::weight);
            auto const* const residual = in.at<T>(O::residual);
            over_ranges(threads, s.rows, row_grain(s.cols), [&](auto begin, auto end) {
                for (std::int64_t r = begin; r < end; ++r) {
                    T const* const x = in.at<T>(O::x) + r * s.cols;
                    T const* const dy = in.at<T>(O::dy) + r * s.cols;
                    T* const dx = in.at<T>(O::dx) + r * s.cols;
                    float const rstd = in.at<float>(O::rstd)[r];
                    float const product = sum_over(s.cols, [&](auto c, auto part) {
                        return load(dy + c, part) * load(weight + c, part) * load(x + c, part);
                    });
                    // dx = rstd * g - x * rstd^3 * mean(g * x)
                    float const back = product / static_cast<float>(s.cols) * rstd * rstd * rstd;
                    auto const gradient = [&](auto c, auto part) {
                        Floats const g = load(dy + c, part) * load(weight + c, part);
                        return g * rstd - load(x + c, part) * back;
                    };
                    if (residual != nullptr)
                        over(0, s.cols, [&](auto c, auto part) {
                            Floats const add = load(residual + r * s.cols + c, part);
                            store(dx + c, gradient(c, part) + add, part);
                        });
                    else
                        over(0, s.cols,
                             [&](auto c, auto part) { store(dx + c, gradient(c, part), part); });
                }
            });
        });
    });
}

OperationPtr make_rms_norm_weight_gradient(RmsNormShape const& shape, Context const& context) {
    using O = RmsNormWeightGradientOperand;
    return with_type(shape.type, [&]<class T>(T) {
        auto const body = [s = shape, threads = context.threads](Operands in,
                                                                 std::byte* workspace) {
            auto const* const x = in.at<T>(O::x);
            auto const* const dy = in.at<T>(O::dy);
            auto const* const rstd = in.at<float>(O::rstd);
            auto const term = [&](std::int64_t r, std::int64_t c, auto part) {
                std::int64_t const at = r * s.cols + c;
                return load(dy + at, part) * load(x + at, part) * rstd[r];
            };
            add_rows({s.rows, s.cols, threads}, term, in.at<float>(O::dweight), workspace);
        };
        return make_operation(body, row_blocks_bytes(shape.rows, shape.cols));
    });
}

} // namespace evener::kernels::host
