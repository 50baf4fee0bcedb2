// SPDX-License-Identifier: Apache-2.0

// Matrix products by cuBLASLt. Everything is decided when the product is prepared; run only sets
// pointers.
//
// cuBLASLt thinks in columns, so the row-major dst[m, n] is its transpose, [n, m] by columns:
//   dst^T = op(b)^T op(a)^T,  with b in the place of its A and a in that of its B.
// A row-major matrix is its own transpose by columns, so op(b)^T is b as stored unless transpose_b.
// Its bias runs along the rows of the result, which is our bias[n]; its C is our residual or dst.
//
// The algorithm is the first that the heuristic offers: the same on every start with the same
// library and GPU, so that a resumed run repeats the bits. A measured choice would not. Algorithms
// that split k must add the parts in float32. Bound: 2 m n k operations at the rate of the tensor
// cores (bfloat16) or of the float32 units (no TF32: float32 means float32).

#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/product_terms.hpp"
#include "kernels/cuda/status.hpp"

#include <cstdint>
#include <optional>

namespace evener::kernels::cuda {
namespace {

constexpr std::uint32_t wide_alignment = 16;      // bytes; what fast algorithms ask of pointers
constexpr std::int64_t workspace_alignment = 256; // bytes
constexpr std::size_t most_workspace = 32u << 20; // bytes; what NVIDIA advises on Hopper

template <class Handle, cublasStatus_t (*destroy)(Handle)>
struct Destroy {
    using pointer = Handle;
    void operator()(Handle handle) const { destroy(handle); }
};
using Layout = std::unique_ptr<void, Destroy<cublasLtMatrixLayout_t, [](cublasLtMatrixLayout_t l) {
                                   return cublasLtMatrixLayoutDestroy(l);
                               }>>;
using Description = std::unique_ptr<void, Destroy<cublasLtMatmulDesc_t, [](cublasLtMatmulDesc_t d) {
                                        return cublasLtMatmulDescDestroy(d);
                                    }>>;
using Preference =
    std::unique_ptr<void, Destroy<cublasLtMatmulPreference_t, [](cublasLtMatmulPreference_t p) {
                        return cublasLtMatmulPreferenceDestroy(p);
                    }>>;

cudaDataType_t type_of(Element element) {
    return element == Element::float32 ? CUDA_R_32F : CUDA_R_16BF;
}

/// rows x cols by columns, without gaps.
Layout make_layout(Element type, std::int64_t rows, std::int64_t cols) {
    cublasLtMatrixLayout_t layout = nullptr;
    EVENER_CUDA(cublasLtMatrixLayoutCreate(&layout, type_of(type), static_cast<std::uint64_t>(rows),
                                           static_cast<std::uint64_t>(cols), rows));
    return Layout{layout};
}

template <class Value>
void set(Description const& description, cublasLtMatmulDescAttributes_t attribute, Value value) {
    EVENER_CUDA(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof value));
}

template <class Value>
void set(Preference const& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
    EVENER_CUDA(
        cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value));
}

class MatrixProduct {
  public:
    /// `fused`: bias and residual are added by cuBLASLt, which needs them in the type of dst.
    MatrixProduct(MatmulShape const& s, bool fused, Context const& context)
        : shape_{s}, fused_{fused}, context_{context}, b_{s.transpose_b
                                                              ? make_layout(s.src, s.k, s.n)
                                                              : make_layout(s.src, s.n, s.k)},
          a_{s.transpose_a ? make_layout(s.src, s.m, s.k) : make_layout(s.src, s.k, s.m)},
          dst_{make_layout(s.dst, s.n, s.m)} {
        cublasLtMatmulDesc_t description = nullptr;
        EVENER_CUDA(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        description_.reset(description);
        set(description_, CUBLASLT_MATMUL_DESC_TRANSA, s.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(description_, CUBLASLT_MATMUL_DESC_TRANSB, s.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
        if (s.bias && fused)
            set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
        wide_ = choose(wide_alignment);
        narrow_ = choose(static_cast<std::uint32_t>(bytes_of(s.src)));
        if (!wide_ && !narrow_) {
            Refused refused;
            refuse(refused.reason, "cuBLASLt has no algorithm for this matrix product");
            throw refused;
        }
    }

    std::int64_t workspace_bytes() const {
        std::size_t const most =
            std::max(wide_ ? wide_->workspaceSize : 0, narrow_ ? narrow_->workspaceSize : 0);
        return most == 0 ? 0 : static_cast<std::int64_t>(most) + workspace_alignment;
    }

    void run(Operands in, std::byte* workspace, cudaStream_t stream) const {
        using O = MatmulOperand;
        void* const bias = in.pointers[O::bias];
        void* const dst = in.pointers[O::dst];
        bool const adds = fused_ && (shape_.accumulate || shape_.residual);
        void const* const c = adds && shape_.residual ? in.pointers[O::residual] : dst;
        bool const has_bias = fused_ && shape_.bias;
        bool wide = aligned(in.pointers[O::a]) && aligned(in.pointers[O::b]) && aligned(dst) &&
                    aligned(c) && (!has_bias || aligned(bias));
        auto const& algorithm = wide && wide_ ? wide_ : narrow_;
        if (!algorithm)
            throw std::runtime_error{"cuBLASLt has no algorithm for this matrix product at "
                                     "addresses that are not multiples of 16 bytes"};
        if (has_bias)
            set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<void const*>(bias));
        float const alpha = 1;
        float const beta = adds ? 1 : 0;
        EVENER_CUDA(cublasLtMatmul(context_.products, description_.get(), &alpha, in.pointers[O::b],
                                   b_.get(), in.pointers[O::a], a_.get(), &beta, c, dst_.get(), dst,
                                   dst_.get(), &algorithm->algo, align(workspace),
                                   algorithm->workspaceSize, stream));
        if (!fused_)
            add_terms(shape_, Product::in_dst, in, context_, stream);
    }

  private:
    static bool aligned(void const* pointer) {
        return reinterpret_cast<std::uintptr_t>(pointer) % wide_alignment == 0;
    }

    static std::byte* align(std::byte* workspace) {
        auto const address = reinterpret_cast<std::uintptr_t>(workspace);
        return workspace +
               (workspace_alignment - address % workspace_alignment) % workspace_alignment;
    }

    /// The heuristic's first algorithm for pointers of this alignment, if there is one.
    std::optional<cublasLtMatmulHeuristicResult_t> choose(std::uint32_t alignment) const {
        cublasLtMatmulPreference_t created = nullptr;
        EVENER_CUDA(cublasLtMatmulPreferenceCreate(&created));
        Preference const preference{created};
        set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace);
        set(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
            static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
        for (auto const attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
            set(preference, attribute, alignment);
        if (shape_.bias && fused_) // only its alignment is looked at
            set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                reinterpret_cast<void const*>(std::uintptr_t{alignment}));
        cublasLtMatmulHeuristicResult_t result{};
        int found = 0;
        cublasStatus_t const status = cublasLtMatmulAlgoGetHeuristic(
            context_.products, description_.get(), b_.get(), a_.get(), dst_.get(), dst_.get(),
            preference.get(), 1, &result, &found);
        if (status == CUBLAS_STATUS_NOT_SUPPORTED || found == 0)
            return std::nullopt;
        require(status, "cublasLtMatmulAlgoGetHeuristic");
        return result;
    }

    MatmulShape shape_;
    bool fused_;
    Context const& context_;
    Layout b_, a_, dst_;
    Description description_;
    std::optional<cublasLtMatmulHeuristicResult_t> wide_;   ///< all pointers aligned to 16 bytes
    std::optional<cublasLtMatmulHeuristicResult_t> narrow_; ///< aligned to their elements
};

} // namespace

OperationPtr make_matmul(MatmulShape const& shape, Context const& context) {
    if (shape.m == 0 || shape.n == 0 || shape.k == 0)
        return make_operation([shape, &context](Operands in, std::byte*, cudaStream_t stream) {
            if (!shape.accumulate)
                add_terms(shape, Product::absent, in, context, stream);
        });
    if (shape.src == Element::bfloat16 && !context.has_bfloat16()) {
        Refused refused;
        refuse(refused.reason,
               "this GPU has no bfloat16 matrix products (compute capability %d.%d, they need "
               "8.0); compute in float32",
               context.capability / 10, context.capability % 10);
        throw refused;
    }
    bool const terms = shape.bias || shape.residual;
    MatrixProduct product{shape, !terms || shape.src == shape.dst, context};
    std::int64_t const bytes = product.workspace_bytes();
    return make_operation(
        [product = std::move(product)](Operands in, std::byte* workspace, cudaStream_t stream) {
            product.run(in, workspace, stream);
        },
        bytes);
}

} // namespace evener::kernels::cuda
