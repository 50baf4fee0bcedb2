// SPDX-License-Identifier: Apache-2.0

// RMSNorm. A block has one row: it adds up the row, then reads it again, now from L1 (a row of 8192
// float32 is 32 KiB), and writes. All three kernels are bound by memory; with T of t bytes:
//   forward           2 t bytes and 5 operations per element (x in, y out)
//   backward          3 t bytes, 4 t with a residual, and 11 operations per element
//   weight gradient   2 t bytes and 3 operations per element (x and dy in)
// At 3.35 TB/s (H100) forward in bfloat16 moves 0.84e12 elements/s, 4.2 TFLOP/s of its 67.

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/reduce.cuh"

namespace evener::kernels::cuda {
namespace {

/// `given`: rstd is read instead of computed and written.
template <class T, class A, bool given>
__global__ void __launch_bounds__(256) rms_norm_kernel(std::int64_t cols, float epsilon, T const* x,
                                                       T const* weight, T* y, float* rstd) {
    std::int64_t const row = static_cast<std::int64_t>(blockIdx.x) * cols;
    std::int64_t const first = static_cast<std::int64_t>(threadIdx.x) * A::size;
    std::int64_t const stride = static_cast<std::int64_t>(blockDim.x) * A::size;
    float value[A::size];
    float scale;
    if constexpr (given) {
        scale = rstd[blockIdx.x];
    } else {
        float squares = 0;
        for (std::int64_t c = first; c < cols; c += stride) {
            load<A>(x + row + c, value);
#pragma unroll
            for (int i = 0; i < A::size; ++i)
                squares += value[i] * value[i];
        }
        float const mean = cols > 0 ? block_sum(squares) / static_cast<float>(cols) : 0.0f;
        scale = 1.0f / sqrtf(mean + epsilon);
        if (threadIdx.x == 0)
            rstd[blockIdx.x] = scale;
    }
    float factor[A::size];
    for (std::int64_t c = first; c < cols; c += stride) {
        load<A>(x + row + c, value);
        load<A>(weight + c, factor);
#pragma unroll
        for (int i = 0; i < A::size; ++i)
            value[i] *= scale * factor[i];
        store<A>(y + row + c, value);
    }
}

/// residual may be null, and dx itself: each thread reads an element before it writes it.
template <class T, class A>
__global__ void __launch_bounds__(256)
    rms_norm_backward_kernel(std::int64_t cols, T const* x, T const* weight, float const* rstd,
                             T const* dy, T const* residual, T* dx) {
    std::int64_t const row = static_cast<std::int64_t>(blockIdx.x) * cols;
    std::int64_t const first = static_cast<std::int64_t>(threadIdx.x) * A::size;
    std::int64_t const stride = static_cast<std::int64_t>(blockDim.x) * A::size;
    float const scale = rstd[blockIdx.x];
    float value[A::size];
    float gradient[A::size];
    float factor[A::size];
    float products = 0; // of g and x
    for (std::int64_t c = first; c < cols; c += stride) {
        load<A>(x + row + c, value);
        load<A>(dy + row + c, gradient);
        load<A>(weight + c, factor);
#pragma unroll
        for (int i = 0; i < A::size; ++i)
            products += gradient[i] * factor[i] * value[i];
    }
    float const mean = block_sum(products) * scale / static_cast<float>(cols);
    for (std::int64_t c = first; c < cols; c += stride) {
        load<A>(x + row + c, value);
        load<A>(dy + row + c, gradient);
        load<A>(weight + c, factor);
#pragma unroll
        for (int i = 0; i < A::size; ++i)
            gradient[i] = scale * (gradient[i] * factor[i] - value[i] * scale * mean);
        if (residual != nullptr) {
            load<A>(residual + row + c, value);
#pragma unroll
            for (int i = 0; i < A::size; ++i)
                gradient[i] += value[i];
        }
        store<A>(dx + row + c, gradient);
    }
}

/// dy * x * rstd, summed over rows.
template <class T>
struct WeightGradientTerm {
    T const* x;
    float const* rstd;
    T const* dy;
    std::int64_t cols;

    template <class A>
    __device__ __forceinline__ void read(std::int64_t r, std::int64_t c,
                                         float (&term)[A::size]) const {
        float value[A::size];
        load<A>(x + r * cols + c, value);
        load<A>(dy + r * cols + c, term);
        float const scale = rstd[r];
#pragma unroll
        for (int i = 0; i < A::size; ++i)
            term[i] *= value[i] * scale;
    }
};

unsigned row_threads(RmsNormShape const& s, int at_once) {
    return threads_for(div_up(s.cols, at_once));
}

} // namespace

OperationPtr make_rms_norm(RmsNormShape const& shape, Context const&) {
    using O = RmsNormOperand;
    return with_element(shape.type, [&]<class T>(T) {
        return make_operation([s = shape](Operands in, std::byte*, cudaStream_t stream) {
            if (s.rows == 0)
                return;
            auto const* const x = in.at<T>(O::x);
            auto const* const weight = in.at<T>(O::weight);
            auto* const y = in.at<T>(O::y);
            auto* const rstd = in.at<float>(O::rstd);
            with_row_access<T>(
                s.cols,
                [&]<class A>(A) {
                    dim3 const grid(static_cast<unsigned>(s.rows));
                    dim3 const block(row_threads(s, A::size));
                    if (s.rstd_given)
                        EVENER_LAUNCH((rms_norm_kernel<T, A, true>), grid, block, 0, stream, s.cols,
                                      s.epsilon, x, weight, y, rstd);
                    else
                        EVENER_LAUNCH((rms_norm_kernel<T, A, false>), grid, block, 0, stream,
                                      s.cols, s.epsilon, x, weight, y, rstd);
                },
                x, weight, y);
        });
    });
}

OperationPtr make_rms_norm_backward(RmsNormShape const& shape, Context const&) {
    using O = RmsNormBackwardOperand;
    return with_element(shape.type, [&]<class T>(T) {
        return make_operation([s = shape](Operands in, std::byte*, cudaStream_t stream) {
            if (s.rows == 0 || s.cols == 0)
                return;
            auto const* const x = in.at<T>(O::x);
            auto const* const weight = in.at<T>(O::weight);
            auto const* const dy = in.at<T>(O::dy);
            auto const* const residual = in.at<T>(O::residual);
            auto* const dx = in.at<T>(O::dx);
            with_row_access<T>(
                s.cols,
                [&]<class A>(A) {
                    EVENER_LAUNCH((rms_norm_backward_kernel<T, A>),
                                  dim3(static_cast<unsigned>(s.rows)),
                                  dim3(row_threads(s, A::size)), 0, stream, s.cols, x, weight,
                                  in.at<float>(O::rstd), dy, residual, dx);
                },
                x, weight, dy, residual, dx);
        });
    });
}

OperationPtr make_rms_norm_weight_gradient(RmsNormShape const& shape, Context const&) {
    using O = RmsNormWeightGradientOperand;
    return with_element(shape.type, [&]<class T>(T) {
        auto const body = [s = shape](Operands in, std::byte* workspace, cudaStream_t stream) {
            auto const* const x = in.at<T>(O::x);
            auto const* const dy = in.at<T>(O::dy);
            WeightGradientTerm<T> const term{x, in.at<float>(O::rstd), dy, s.cols};
            with_row_access<T>(
                s.cols,
                [&]<class A>(A) {
                    add_rows<A>({s.rows, s.cols}, term, in.at<float>(O::dweight), workspace,
                                stream);
                },
                x, dy);
        };
        return make_operation(body, add_rows_bytes({shape.rows, shape.cols}));
    });
}

} // namespace evener::kernels::cuda
