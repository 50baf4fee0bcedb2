// SPDX-License-Identifier: Apache-2.0

// Matrix products of cuBLASLt by loops: float32 and bfloat16, sums in float32 in order of k, the
// default and the bias epilogue, no batches, matrices by columns. The heuristic offers one algorithm,
// which remembers what alignment and how much workspace it was asked for; a product that breaks the
// promise fails as it might on a device. The workspace is poisoned when the product runs.

#include "runtime.hpp"
#include <cublasLt.h>
#include <cuda_bf16.h>

#include <cstring>
#include <initializer_list>

struct cublasLtContext {
    int device = 0;
};

namespace evener::hostcuda {
namespace {

struct Description {
    cublasOperation_t transpose_a = CUBLAS_OP_N;
    cublasOperation_t transpose_b = CUBLAS_OP_N;
    cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    void const* bias = nullptr;
};

struct Layout {
    cudaDataType_t type = CUDA_R_32F;
    std::uint64_t rows = 0;
    std::uint64_t cols = 0;
    std::int64_t leading = 0; ///< elements from one column to the next
};

struct Preference {
    std::uint64_t workspace_bytes = 0;
    std::uint32_t alignment[4] = {256, 256, 256, 256}; ///< a, b, c, d
};

struct Algorithm {
    std::uint64_t workspace_bytes;
    std::uint32_t alignment[4];
    std::uint32_t magic;
};
constexpr std::uint32_t algorithm_magic = 0x65766e72;

/// The opaque structs hold ours.
template <class Ours, class Opaque>
Ours& ours(Opaque* opaque) {
    static_assert(sizeof(Ours) <= sizeof(Opaque) && alignof(Ours) <= alignof(Opaque));
    return *reinterpret_cast<Ours*>(opaque);
}

template <class Ours, class Opaque>
Ours const& ours(Opaque const* opaque) {
    static_assert(sizeof(Ours) <= sizeof(Opaque) && alignof(Ours) <= alignof(Opaque));
    return *reinterpret_cast<Ours const*>(opaque);
}

template <class Ours, class Opaque>
cublasStatus_t create(Opaque** opaque, Ours const& initial) {
    *opaque = new Opaque{};
    ours<Ours>(*opaque) = initial;
    return CUBLAS_STATUS_SUCCESS;
}

/// Copies an attribute's value; false when the size is not the attribute's.
template <class Value>
bool assign(Value& value, void const* source, std::size_t bytes) {
    if (bytes != sizeof(Value))
        return false;
    std::memcpy(&value, source, bytes);
    return true;
}

bool is_known(cudaDataType_t type) {
    return type == CUDA_R_32F || type == CUDA_R_16BF;
}

float load(void const* values, cudaDataType_t type, std::size_t i) {
    if (type == CUDA_R_32F)
        return static_cast<float const*>(values)[i];
    return __bfloat162float(static_cast<__nv_bfloat16 const*>(values)[i]);
}

void store(void* values, cudaDataType_t type, std::size_t i, float value) {
    if (type == CUDA_R_32F)
        static_cast<float*>(values)[i] = value;
    else
        static_cast<__nv_bfloat16*>(values)[i] = __float2bfloat16(value);
}

/// op(matrix) as floats by columns without gaps.
std::vector<float> gathered(void const* matrix, Layout const& layout, cublasOperation_t operation) {
    std::size_t const rows = layout.rows;
    std::size_t const cols = layout.cols;
    std::vector<float> values(rows * cols);
    for (std::size_t col = 0; col < cols; ++col)
        for (std::size_t row = 0; row < rows; ++row) {
            std::size_t const at = operation == CUBLAS_OP_N ? col * rows + row : row * cols + col;
            values[at] =
                load(matrix, layout.type, col * static_cast<std::size_t>(layout.leading) + row);
        }
    return values;
}

struct Product {
    Description description;
    Layout a_layout, b_layout, c_layout, d_layout;
    void const* a = nullptr;
    void const* b = nullptr;
    void const* c = nullptr;
    void* d = nullptr;
    float alpha = 1;
    float beta = 0;

    std::uint64_t m() const { return d_layout.rows; }
    std::uint64_t n() const { return d_layout.cols; }
    std::uint64_t k() const {
        return description.transpose_a == CUBLAS_OP_N ? a_layout.cols : a_layout.rows;
    }
};

/// Null, or what is wrong.
char const* fault_of(Product const& p) {
    bool const plain_a = p.description.transpose_a == CUBLAS_OP_N;
    bool const plain_b = p.description.transpose_b == CUBLAS_OP_N;
    if ((plain_a ? p.a_layout.rows : p.a_layout.cols) != p.m() ||
        (plain_b ? p.b_layout.cols : p.b_layout.rows) != p.n() ||
        (plain_b ? p.b_layout.rows : p.b_layout.cols) != p.k())
        return "the shapes of the matrices do not match";
    if (p.c_layout.rows != p.m() || p.c_layout.cols != p.n() || p.c_layout.type != p.d_layout.type)
        return "C and D differ in shape or type";
    for (Layout const& layout : {p.a_layout, p.b_layout, p.c_layout, p.d_layout}) {
        if (layout.leading < static_cast<std::int64_t>(layout.rows))
            return "a leading dimension is smaller than a column";
        if (layout.rows == 0 || layout.cols == 0)
            return "an empty matrix";
    }
    return nullptr;
}

void compute(Product const& p) {
    auto const a = gathered(p.a, p.a_layout, p.description.transpose_a);
    auto const b = gathered(p.b, p.b_layout, p.description.transpose_b);
    std::vector<float> column(p.m());
    for (std::size_t j = 0; j < p.n(); ++j) {
        std::fill(column.begin(), column.end(), 0.0f);
        for (std::size_t l = 0; l < p.k(); ++l) {
            float const factor = b[j * p.k() + l];
            float const* const from = a.data() + l * p.m();
            for (std::size_t i = 0; i < column.size(); ++i)
                column[i] += from[i] * factor;
        }
        for (std::size_t i = 0; i < column.size(); ++i) {
            float value = p.alpha * column[i];
            if (p.beta != 0)
                value += p.beta * load(p.c, p.c_layout.type,
                                       j * static_cast<std::size_t>(p.c_layout.leading) + i);
            if (p.description.epilogue == CUBLASLT_EPILOGUE_BIAS)
                value += load(p.description.bias, p.d_layout.type, i);
            store(p.d, p.d_layout.type, j * static_cast<std::size_t>(p.d_layout.leading) + i,
                  value);
        }
    }
}

bool aligned(void const* address, std::uint32_t alignment) {
    return reinterpret_cast<std::uintptr_t>(address) % alignment == 0;
}

/// What real algorithms may crash or compute nonsense on.
void expect_promises(Product const& p, Algorithm const& algorithm, void const* workspace,
                     std::size_t workspace_bytes) {
    constexpr std::uint32_t workspace_alignment = 16;
    if (algorithm.magic != algorithm_magic)
        refuse_call(cudaErrorInvalidValue,
                    "cublasLtMatmul: the algorithm does not come from the heuristic");
    void const* const addresses[] = {p.a, p.b, p.beta != 0 ? p.c : p.d, p.d};
    for (int i = 0; i < 4; ++i)
        if (!aligned(addresses[i], algorithm.alignment[i]))
            refuse_call(cudaErrorInvalidValue,
                        "cublasLtMatmul: a matrix is less aligned than the heuristic was told");
    if (workspace_bytes < algorithm.workspace_bytes || !aligned(workspace, workspace_alignment) ||
        (algorithm.workspace_bytes > 0 && !workspace))
        refuse_call(cudaErrorInvalidValue,
                    "cublasLtMatmul: the workspace is too small or not aligned to 16 bytes");
    if (p.description.epilogue == CUBLASLT_EPILOGUE_BIAS && !p.description.bias)
        refuse_call(cudaErrorInvalidValue, "cublasLtMatmul: a bias epilogue without bias");
}

cublasStatus_t status_of(cudaError_t code) {
    if (code == cudaSuccess)
        return CUBLAS_STATUS_SUCCESS;
    return code == cudaErrorInvalidValue ? CUBLAS_STATUS_INVALID_VALUE
                                         : CUBLAS_STATUS_EXECUTION_FAILED;
}

} // namespace
} // namespace evener::hostcuda

using namespace evener::hostcuda;

extern "C" {

std::size_t cublasLtGetVersion() {
    return CUBLAS_VERSION;
}

char const* cublasLtGetStatusName(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "CUBLAS_STATUS_EXECUTION_FAILED";
    default:
        return "CUBLAS_STATUS_UNKNOWN";
    }
}

char const* cublasLtGetStatusString(cublasStatus_t status) {
    switch (status) {
    case CUBLAS_STATUS_SUCCESS:
        return "success";
    case CUBLAS_STATUS_INVALID_VALUE:
        return "an unsupported value or parameter was passed to the function";
    case CUBLAS_STATUS_NOT_SUPPORTED:
        return "the functionality requested is not supported";
    case CUBLAS_STATUS_EXECUTION_FAILED:
        return "the function failed to launch on the GPU";
    default:
        return "unknown status";
    }
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
    *handle = new cublasLtContext{current_device()};
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) {
    delete handle;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* description,
                                        cublasComputeType_t compute_type, cudaDataType_t scale) {
    if (compute_type != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return create(description, Description{});
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t description) {
    delete description;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t description,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              void const* value, std::size_t bytes) {
    auto& own = ours<Description>(description);
    bool fits = false;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        fits = assign(own.transpose_a, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
        fits = assign(own.transpose_b, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        fits = assign(own.epilogue, value, bytes);
        break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        fits = assign(own.bias, value, bytes);
        break;
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type,
                                          std::uint64_t rows, std::uint64_t cols,
                                          std::int64_t leading) {
    return create(layout, Layout{type, rows, cols, leading});
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
    delete layout;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
    return create(preference, Preference{});
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
    delete preference;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    void const* value, std::size_t bytes) {
    auto& own = ours<Preference>(preference);
    std::uint32_t mask = 0;
    bool fits = false;
    switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
        fits = assign(own.workspace_bytes, value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
        fits = assign(own.alignment[0], value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
        fits = assign(own.alignment[1], value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
        fits = assign(own.alignment[2], value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
        fits = assign(own.alignment[3], value, bytes);
        break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: // nothing is split here
        fits = assign(mask, value, bytes);
        break;
    default:
        return CUBLAS_STATUS_NOT_SUPPORTED;
    }
    return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t description,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preference, int wanted,
                                              cublasLtMatmulHeuristicResult_t* results,
                                              int* found) {
    *found = 0;
    Product const product{ours<Description>(description), ours<Layout>(a), ours<Layout>(b),
                          ours<Layout>(c), ours<Layout>(d)};
    if (wanted < 1 || fault_of(product))
        return CUBLAS_STATUS_INVALID_VALUE;
    auto const epilogue = product.description.epilogue;
    auto const& [own, la, lb, lc, ld, pa, pb, pc, pd, alpha, beta] = product;
    if ((epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_BIAS) ||
        la.type != lb.type || !is_known(la.type) || !is_known(ld.type) ||
        (la.type == CUDA_R_32F && ld.type != CUDA_R_32F))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    auto const& asked = ours<Preference>(preference);
    constexpr std::uint64_t useful = 4096; // bytes; enough to see a workspace that is shared
    cublasLtMatmulHeuristicResult_t& result = results[0] = {};
    auto& algorithm = ours<Algorithm>(&result.algo);
    algorithm.workspace_bytes = std::min(asked.workspace_bytes, useful);
    std::copy_n(asked.alignment, 4, algorithm.alignment);
    algorithm.magic = algorithm_magic;
    result.workspaceSize = algorithm.workspace_bytes;
    result.state = CUBLAS_STATUS_SUCCESS;
    result.wavesCount = 1;
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t description,
                              void const* alpha, void const* a, cublasLtMatrixLayout_t a_layout,
                              void const* b, cublasLtMatrixLayout_t b_layout, void const* beta,
                              void const* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout,
                              cublasLtMatmulAlgo_t const* algorithm, void* workspace,
                              std::size_t workspace_bytes, cudaStream_t stream) {
    return status_of(guarded([&] {
        Product const product{ours<Description>(description),
                              ours<Layout>(a_layout),
                              ours<Layout>(b_layout),
                              ours<Layout>(c_layout),
                              ours<Layout>(d_layout),
                              a,
                              b,
                              c,
                              d,
                              *static_cast<float const*>(alpha),
                              *static_cast<float const*>(beta)};
        if (char const* const fault = fault_of(product))
            refuse_call(cudaErrorInvalidValue, std::string{"cublasLtMatmul: "} + fault);
        if (device_of(stream) != handle->device)
            refuse_call(cudaErrorInvalidValue,
                        "cublasLtMatmul: the stream is of another device than the handle");
        std::uint64_t used = 0;
        if (algorithm) {
            auto const& own = ours<Algorithm>(algorithm);
            expect_promises(product, own, workspace, workspace_bytes);
            used = own.workspace_bytes;
        }
        enqueue(stream, at_once([=] {
                    if (used > 0)
                        std::memset(workspace, poison, used);
                    compute(product);
                }));
    }));
}

} // extern "C"
