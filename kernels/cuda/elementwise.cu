// SPDX-License-Identifier: Apache-2.0

// Conversions and sums of vectors and matrices. All are bound by memory: they read each element
// once, and convert writes it. Sums of squares and of segments add in double, which is 2 operations
// per 4 bytes: 1.7 TFLOP/s at 3.35 TB/s (H100: 34 in double).

#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/status.hpp"
#include "kernels/cuda/vector_loop.cuh"

namespace evener::kernels::cuda {
namespace {

template <class S, class D>
struct Convert {
    static constexpr int at_once =
        std::max(elements_at_once<S>, elements_at_once<D>); // 16 or 32 bytes of each
    S const* src;
    D* dst;

    __device__ __forceinline__ void begin() {}

    template <class A>
    __device__ __forceinline__ void at(std::int64_t i) const {
        float value[A::size];
        load<A>(src + i, value);
        store<A>(dst + i, value);
    }
};

template <class T>
struct ColumnTerm {
    T const* src;
    std::int64_t cols;

    template <class A>
    __device__ __forceinline__ void read(std::int64_t r, std::int64_t c,
                                         float (&term)[A::size]) const {
        load<A>(src + r * cols + c, term);
    }
};

__global__ void __launch_bounds__(256)
    add_parts_kernel(std::int64_t cols, std::int64_t parts, float const* sums, float* dst) {
    std::int64_t const c = static_cast<std::int64_t>(blockIdx.x) * 256 + threadIdx.x;
    if (c >= cols)
        return;
    float total = 0;
    for (std::int64_t part = 0; part < parts; ++part)
        total += sums[part * cols + c];
    dst[c] += total;
}

constexpr int sum_threads = 256;
constexpr std::int64_t squares_block = 16384; // elements whose squares one block adds

/// A block per segment.
__global__ void __launch_bounds__(sum_threads)
    segment_sums_kernel(std::int64_t length, float const* src, double* dst) {
    float const* const segment = src + static_cast<std::int64_t>(blockIdx.x) * length;
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < length; i += sum_threads)
        sum += static_cast<double>(segment[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        dst[blockIdx.x] = sum;
}

/// A block per squares_block elements.
template <class A>
__global__ void __launch_bounds__(sum_threads)
    square_parts_kernel(std::int64_t elements, float const* src, double* parts) {
    std::int64_t const begin = static_cast<std::int64_t>(blockIdx.x) * squares_block;
    std::int64_t const end = min(begin + squares_block, elements);
    double sum = 0;
    for (std::int64_t i = begin + static_cast<std::int64_t>(threadIdx.x) * A::size; i < end;
         i += sum_threads * A::size) {
        float value[A::size];
        int count = A::size;
        if (i + A::size <= end) {
            load<A>(src + i, value);
        } else {
            count = static_cast<int>(end - i);
            for (int e = 0; e < A::size; ++e)
                value[e] = e < count ? src[i + e] : 0.0f;
        }
#pragma unroll
        for (int e = 0; e < A::size; ++e)
            sum += static_cast<double>(value[e]) * static_cast<double>(value[e]);
    }
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        parts[blockIdx.x] = sum;
}

/// One block adds all.
__global__ void __launch_bounds__(sum_threads)
    add_squares_kernel(std::int64_t parts, double const* sums, double* dst) {
    double sum = 0;
    for (std::int64_t i = threadIdx.x; i < parts; i += sum_threads)
        sum += sums[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *dst = sum;
}

} // namespace

void add_parts(std::int64_t cols, std::int64_t parts, float const* sums, float* dst,
               cudaStream_t stream) {
    EVENER_LAUNCH(add_parts_kernel, dim3(static_cast<unsigned>(div_up(cols, 256))), dim3(256), 0,
                  stream, cols, parts, sums, dst);
}

OperationPtr make_convert(ConvertShape const& shape, Context const& context) {
    using O = ConvertOperand;
    return with_element(shape.src, [&]<class S>(S) {
        return with_element(shape.dst, [&]<class D>(D) {
            return make_operation(
                [s = shape, &context](Operands in, std::byte*, cudaStream_t stream) {
                    Convert<S, D> const body{in.at<S>(O::src), in.at<D>(O::dst)};
                    bool const aligned = is_aligned(body.src, 16) && is_aligned(body.dst, 16);
                    over_vector<Convert<S, D>::at_once>(s.elements, aligned, body, context, stream);
                });
        });
    });
}

OperationPtr make_clear(ClearShape const& shape, Context const&) {
    return make_operation([s = shape](Operands in, std::byte*, cudaStream_t stream) {
        if (s.bytes > 0)
            EVENER_CUDA(cudaMemsetAsync(in.pointers[ClearOperand::dst], 0,
                                        static_cast<std::size_t>(s.bytes), stream));
    });
}

OperationPtr make_column_sums(ColumnSumsShape const& shape, Context const&) {
    using O = ColumnSumsOperand;
    return with_element(shape.type, [&]<class T>(T) {
        auto const body = [s = shape](Operands in, std::byte* workspace, cudaStream_t stream) {
            ColumnTerm<T> const term{in.at<T>(O::src), s.cols};
            with_row_access<T>(
                s.cols,
                [&]<class A>(A) {
                    add_rows<A>({s.rows, s.cols}, term, in.at<float>(O::dst), workspace, stream);
                },
                term.src);
        };
        return make_operation(body, add_rows_bytes({shape.rows, shape.cols}));
    });
}

OperationPtr make_segment_sums(SegmentSumsShape const& shape, Context const&) {
    using O = SegmentSumsOperand;
    return make_operation([s = shape](Operands in, std::byte*, cudaStream_t stream) {
        if (s.segments > 0)
            EVENER_LAUNCH(segment_sums_kernel, dim3(static_cast<unsigned>(s.segments)),
                          dim3(sum_threads), 0, stream, s.length, in.at<float>(O::src),
                          in.at<double>(O::dst));
    });
}

OperationPtr make_sum_squares(SumSquaresShape const& shape, Context const&) {
    using O = SumSquaresOperand;
    std::int64_t const parts = div_up(shape.elements, squares_block);
    auto const body = [s = shape, parts](Operands in, std::byte* workspace, cudaStream_t stream) {
        auto const* const src = in.at<float>(O::src);
        auto* const sums = reinterpret_cast<double*>(workspace);
        dim3 const grid(static_cast<unsigned>(parts));
        if (parts > 0 && is_aligned(src, 16))
            EVENER_LAUNCH((square_parts_kernel<Access<4, true>>), grid, dim3(sum_threads), 0,
                          stream, s.elements, src, sums);
        else if (parts > 0)
            EVENER_LAUNCH((square_parts_kernel<Access<4, false>>), grid, dim3(sum_threads), 0,
                          stream, s.elements, src, sums);
        EVENER_LAUNCH(add_squares_kernel, dim3(1), dim3(sum_threads), 0, stream, parts, sums,
                      in.at<double>(O::dst));
    };
    return make_operation(body, parts * 8);
}

} // namespace evener::kernels::cuda
