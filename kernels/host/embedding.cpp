// SPDX-License-Identifier: Apache-2.0

// Rows of a table by token: rows over threads. Gradient: columns over threads, so that each thread
// adds the rows in order and no two write one element.

#include "kernels/host/operations.hpp"
#include "kernels/host/parallel.hpp"
#include "kernels/host/simd.hpp"

namespace evener::kernels::host {

OperationPtr make_embedding(EmbeddingShape const& shape, Context const& context) {
    using O = EmbeddingOperand;
    return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
        auto const* const tokens = in.at<std::int32_t>(O::tokens);
        std::int64_t const row_bytes = s.cols * bytes_of(s.type);
        over_ranges(threads, s.rows, row_grain(s.cols), [&](auto begin, auto end) {
            for (std::int64_t r = begin; r < end && row_bytes > 0; ++r)
                std::memcpy(in.at<std::byte>(O::y) + r * row_bytes,
                            in.at<std::byte>(O::table) + tokens[r] * row_bytes,
                            static_cast<std::size_t>(row_bytes));
        });
    });
}

OperationPtr make_embedding_gradient(EmbeddingShape const& shape, Context const& context) {
    using O = EmbeddingGradientOperand;
    return with_type(shape.type, [&]<class T>(T) {
        return make_operation([s = shape, threads = context.threads](Operands in, std::byte*) {
            auto const* const tokens = in.at<std::int32_t>(O::tokens);
            std::int64_t const grain = std::max(row_grain(s.rows), lanes);
            over_ranges(threads, s.cols, grain, [&](auto begin, auto end) {
                for (std::int64_t r = 0; r < s.rows; ++r) {
                    T const* const dy = in.at<T>(O::dy) + r * s.cols;
                    float* const out = in.at<float>(O::dtable) + tokens[r] * s.cols;
                    over(begin, end, [&](auto c, auto part) {
                        store(out + c, load(out + c, part) + load(dy + c, part), part);
                    });
                }
            });
        });
    });
}

} // namespace evener::kernels::host
