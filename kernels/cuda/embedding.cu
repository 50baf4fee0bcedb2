// SPDX-License-Identifier: Apache-2.0

// Rows of a table by token, and the sum of row gradients back into it.
//
// Gradient: the block of row r works only if r is the first row of its token; it then looks through
// the rows behind r in order and adds those of the same token, so that each row of dtable has one
// writer and one order, without sorting and without atomics. Forward moves 2 t bytes per element (T
// of t bytes), the gradient t, and 8 per element of each different token's row; both are bound by
// memory. Looking through tokens costs rows^2 / 2 comparisons at most, 1024 at a time: for 16384
// rows that is 1.3e8 comparisons (tens of microseconds), against 0.2 ms for rows of 8192 columns.

#include "kernels/cuda/access.cuh"
#include "kernels/cuda/operations.hpp"

namespace evener::kernels::cuda {
namespace {

/// Words: what a thread moves at once, T or 16 bytes.
template <class Word>
__global__ void __launch_bounds__(256)
    embedding_kernel(std::int64_t row_words, std::int32_t const* tokens, Word const* table,
                     Word* y) {
    std::int64_t const row = blockIdx.x;
    Word const* const src = table + static_cast<std::int64_t>(tokens[row]) * row_words;
    for (std::int64_t w = threadIdx.x; w < row_words; w += blockDim.x)
        y[row * row_words + w] = src[w];
}

constexpr int search_threads = 256;
constexpr int tokens_per_thread = 4;
constexpr int chunk = search_threads * tokens_per_thread; // tokens looked at together

/// Marks in `found` (a bit per token) which of tokens[begin .. begin + chunk), those below `end`,
/// are `token`. Whether any is, in all threads; they wait for each other, before and after.
__device__ __forceinline__ bool search(std::int32_t const* tokens, std::int64_t begin,
                                       std::int64_t end, std::int32_t token,
                                       std::uint32_t (&found)[chunk / 32]) {
    bool any = false;
#pragma unroll
    for (int part = 0; part < tokens_per_thread; ++part) {
        int const place = part * search_threads + static_cast<int>(threadIdx.x);
        bool const same = begin + place < end && tokens[begin + place] == token;
        std::uint32_t const lanes = __ballot_sync(0xffffffffu, same);
        if (threadIdx.x % 32 == 0)
            found[place / 32] = lanes;
        any = any || same;
    }
    return __syncthreads_or(any) != 0;
}

template <class T, class A>
__global__ void __launch_bounds__(search_threads)
    embedding_gradient_kernel(EmbeddingShape s, std::int32_t const* tokens, T const* dy,
                              float* dtable) {
    EVENER_SHARED(std::uint32_t, found, [chunk / 32]);
    std::int64_t const row = blockIdx.x;
    std::int32_t const token = tokens[row];
    for (std::int64_t before = row; before > 0; before -= chunk) {
        std::int64_t const begin = before > chunk ? before - chunk : 0;
        if (search(tokens, begin, before, token, found))
            return; // an earlier row has the token
    }
    float* const sum = dtable + static_cast<std::int64_t>(token) * s.cols;
    for (std::int64_t begin = row; begin < s.rows; begin += chunk) {
        if (!search(tokens, begin, s.rows, token, found))
            continue; // the same in all threads; found is not read
        for (std::int64_t c = static_cast<std::int64_t>(threadIdx.x) * A::size; c < s.cols;
             c += search_threads * A::size) {
            float total[A::size];
            load<A>(sum + c, total);
            for (int word = 0; word < chunk / 32; ++word)
                for (std::uint32_t left = found[word]; left != 0; left &= left - 1) {
                    std::int64_t const at = begin + 32 * word + __ffs(static_cast<int>(left)) - 1;
                    float value[A::size];
                    load<A>(dy + at * s.cols + c, value);
#pragma unroll
                    for (int i = 0; i < A::size; ++i)
                        total[i] += value[i];
                }
            store<A>(sum + c, total);
        }
        __syncthreads(); // found is read before it is written again
    }
}

template <class Word>
void copy_rows(std::int64_t rows, std::int64_t row_words, Operands in, cudaStream_t stream) {
    using O = EmbeddingOperand;
    EVENER_LAUNCH(embedding_kernel<Word>, dim3(static_cast<unsigned>(rows)),
                  dim3(threads_for(row_words)), 0, stream, row_words,
                  in.at<std::int32_t>(O::tokens), in.at<Word>(O::table), in.at<Word>(O::y));
}

} // namespace

OperationPtr make_embedding(EmbeddingShape const& shape, Context const&) {
    using O = EmbeddingOperand;
    return with_element(shape.type, [&]<class T>(T) {
        return make_operation([s = shape](Operands in, std::byte*, cudaStream_t stream) {
            if (s.rows == 0 || s.cols == 0)
                return;
            std::int64_t const row_bytes = s.cols * static_cast<std::int64_t>(sizeof(T));
            if (row_bytes % 16 == 0 && is_aligned(in.pointers[O::table], 16) &&
                is_aligned(in.pointers[O::y], 16))
                copy_rows<uint4>(s.rows, row_bytes / 16, in, stream);
            else
                copy_rows<T>(s.rows, s.cols, in, stream);
        });
    });
}

OperationPtr make_embedding_gradient(EmbeddingShape const& shape, Context const&) {
    using O = EmbeddingGradientOperand;
    return with_element(shape.type, [&]<class T>(T) {
        return make_operation([s = shape](Operands in, std::byte*, cudaStream_t stream) {
            if (s.rows == 0 || s.cols == 0)
                return;
            auto const* const dy = in.at<T>(O::dy);
            auto* const dtable = in.at<float>(O::dtable);
            with_row_access<T>(
                s.cols,
                [&]<class A>(A) {
                    EVENER_LAUNCH((embedding_gradient_kernel<T, A>),
                                  dim3(static_cast<unsigned>(s.rows)), dim3(search_threads), 0,
                                  stream, s, in.at<std::int32_t>(O::tokens), dy, dtable);
                },
                dy, dtable);
        });
    });
}

} // namespace evener::kernels::cuda
