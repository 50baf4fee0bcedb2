// SPDX-License-Identifier: Apache-2.0

// Softmax cross-entropy and its gradient, one block per row. The row is read twice: once for the
// largest logit and the sum of exponentials together (online softmax over slices of the row),
// once for the gradient. Bound by memory: 4 bytes per logit for the loss alone; with the gradient
// another 4 (from the second-level cache while the rows of all blocks fit there: 2 blocks of 512
// threads per multiprocessor, on an H100 rows of up to 47 thousand logits) and 4 or 2 written; 2
// exponentials and about 8 flops. Each thread takes 8 neighbouring logits at a time, 16 bytes per
// access; which ones depends on the row and its length alone, so sums have one order.

#include "kernels/check.hpp"
#include "kernels/cuda/access.cuh"
#include "kernels/cuda/operations.hpp"

#include <algorithm>

namespace evener::kernels::cuda {
namespace {

constexpr int most_threads = 512;
constexpr int together = 8; ///< logits per thread and step: 16 bytes of bfloat16 gradients

struct RowPointers {
    float const* logits;
    std::int32_t const* targets;
    float const* scale;
    float* loss;
};

/// Sum of exp(logit - top) over some logits, top being the largest of them.
struct Softmax {
    float top;
    float total;
};

/// What exponents are taken relative to: where nothing but -infinity was met, 0 instead.
__device__ __forceinline__ float base_of(float top) {
    return top == -INFINITY ? 0 : top;
}

__device__ __forceinline__ Softmax merged(Softmax a, Softmax b) {
    float const top = fmaxf(a.top, b.top);
    float const base = base_of(top);
    return {top, a.total * __expf(a.top - base) + b.total * __expf(b.top - base)};
}

/// Of the whole block; shared arrays of one element per warp are used.
__device__ __forceinline__ Softmax over_block(Softmax part, float* tops, float* totals) {
#pragma unroll
    for (int distance = 1; distance < 32; distance *= 2)
        part = merged(part, {__shfl_xor_sync(0xffffffffu, part.top, distance),
                             __shfl_xor_sync(0xffffffffu, part.total, distance)});
    if (threadIdx.x % 32 == 0) {
        tops[threadIdx.x / 32] = part.top;
        totals[threadIdx.x / 32] = part.total;
    }
    __syncthreads();
    Softmax all{tops[0], totals[0]};
    for (unsigned warp = 1; warp < blockDim.x / 32; ++warp)
        all = merged(all, {tops[warp], totals[warp]});
    return all;
}

/// Calls body.operator()<A>(i) for all elements [i, i + A::size) of [begin, end): whole multiples
/// of `together`, then up to 7 single ones at each end.
template <class A, class Body>
__device__ __forceinline__ void over_row(std::int64_t begin, std::int64_t end, Body const& body) {
    std::int64_t const first = min((begin + together - 1) / together * together, end);
    std::int64_t const last = max(first, end / together * together);
    for (std::int64_t i = first + threadIdx.x * together; i < last; i += blockDim.x * together)
        body.template operator()<A>(i);
    if (threadIdx.x < first - begin)
        body.template operator()<Single>(begin + threadIdx.x);
    if (threadIdx.x < end - last)
        body.template operator()<Single>(last + threadIdx.x);
}

/// dlogits: null without gradient; may be the logits.
template <class T, class A>
__global__ void __launch_bounds__(most_threads, 2)
    cross_entropy_kernel(RowPointers in, T* dlogits, std::int64_t cols) {
    EVENER_SHARED(float, tops, [32]);
    EVENER_SHARED(float, totals, [32]);
    std::int64_t const row = blockIdx.x;
    std::int64_t const begin = row * cols;
    std::int64_t const end = begin + cols;
    std::int32_t const target = in.targets[row];
    if (target < 0) {
        if (threadIdx.x == 0)
            in.loss[row] = 0;
        if (dlogits != nullptr)
            over_row<A>(begin, end, [&]<class B>(std::int64_t i) {
                float const zeros[B::size] = {};
                store<B>(dlogits + i, zeros);
            });
        return;
    }
    float const at_target = in.logits[begin + target];
    Softmax part{-INFINITY, 0};
    over_row<A>(begin, end, [&]<class B>(std::int64_t i) {
        float value[B::size];
        load<B>(in.logits + i, value);
        float top = part.top;
#pragma unroll
        for (int e = 0; e < B::size; ++e)
            top = fmaxf(top, value[e]);
        float const base = base_of(top);
        float total = part.total * __expf(part.top - base);
#pragma unroll
        for (int e = 0; e < B::size; ++e)
            total += __expf(value[e] - base);
        part = {top, total};
    });
    Softmax const all = over_block(part, tops, totals); // all have read the target's logit
    if (threadIdx.x == 0)
        in.loss[row] = all.top - at_target + logf(all.total);
    if (dlogits == nullptr)
        return;
    float const scale = *in.scale;
    float const inverse = 1 / all.total;
    over_row<A>(begin, end, [&]<class B>(std::int64_t i) {
        float value[B::size];
        load<B>(in.logits + i, value);
#pragma unroll
        for (int e = 0; e < B::size; ++e) {
            float const correct = i + e == begin + target ? 1 : 0;
            value[e] = (__expf(value[e] - all.top) * inverse - correct) * scale;
        }
        store<B>(dlogits + i, value);
    });
}

/// Whole warps, 8 logits per thread while that is enough.
unsigned threads_of(std::int64_t cols) {
    std::int64_t const wanted = div_up(div_up(cols, together), 32) * 32;
    return static_cast<unsigned>(std::clamp<std::int64_t>(wanted, 32, most_threads));
}

} // namespace

OperationPtr make_cross_entropy(CrossEntropyShape const& shape, Context const&) {
    if (shape.rows >= std::int64_t{1} << 31) {
        Refused refused;
        refuse(refused.reason, "%lld rows (the kernel counts to 2147483647)",
               static_cast<long long>(shape.rows));
        throw refused;
    }
    return with_element(shape.type, [&]<class T>(T) {
        return make_operation([shape](Operands in, std::byte*, cudaStream_t stream) {
            using O = CrossEntropyOperand;
            if (shape.rows == 0)
                return;
            RowPointers const pointers{in.at<float>(O::logits), in.at<std::int32_t>(O::targets),
                                       in.at<float>(O::scale), in.at<float>(O::loss)};
            T* const dlogits = shape.gradient ? in.at<T>(O::dlogits) : nullptr;
            dim3 const grid(static_cast<unsigned>(shape.rows));
            dim3 const block(threads_of(shape.cols));
            bool const aligned = is_aligned(pointers.logits, 16) && is_aligned(dlogits, 16);
            auto const launch = [&]<class A>(A) {
                EVENER_LAUNCH((cross_entropy_kernel<T, A>), grid, block, 0, stream, pointers,
                              dlogits, shape.cols);
            };
            if (aligned)
                launch(Access<together, true>{});
            else
                launch(Access<together, false>{});
        });
    });
}

} // namespace evener::kernels::cuda
