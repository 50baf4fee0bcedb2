// SPDX-License-Identifier: Apache-2.0

// The fake cuBLASLt against loops: both types, transposes, leading dimensions, accumulation, bias;
// and the promises of the heuristic.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cmath>
#include <tuple>
#include <vector>

namespace evener::hostcuda {
namespace {

#define EXPECT_OK(call) EXPECT_EQ(static_cast<int>(call), 0) << #call

float value(std::size_t i, std::size_t salt) {
    return static_cast<float>((i * 7 + salt * 5) % 17) / 8 - 1; // exact as bfloat16
}

struct Matrix {
    cudaDataType_t type;
    std::size_t rows, cols, leading; ///< by columns
    void* memory = nullptr;

    Matrix(cudaDataType_t type, std::size_t rows, std::size_t cols, std::size_t salt)
        : type{type}, rows{rows}, cols{cols}, leading{rows + 3} {
        EXPECT_OK(cudaMalloc(&memory, bytes()));
        std::vector<float> singles(leading * cols);
        std::vector<__nv_bfloat16> halves(leading * cols);
        for (std::size_t i = 0; i < singles.size(); ++i) {
            singles[i] = value(i, salt);
            halves[i] = __float2bfloat16(singles[i]);
        }
        void const* const source =
            type == CUDA_R_32F ? static_cast<void const*>(singles.data()) : halves.data();
        EXPECT_OK(cudaMemcpy(memory, source, bytes(), cudaMemcpyHostToDevice));
    }
    ~Matrix() { EXPECT_OK(cudaFree(memory)); }
    Matrix(Matrix const&) = delete;
    Matrix& operator=(Matrix const&) = delete;

    std::size_t bytes() const { return leading * cols * (type == CUDA_R_32F ? 4 : 2); }

    cublasLtMatrixLayout_t layout() const {
        cublasLtMatrixLayout_t created = nullptr;
        EXPECT_OK(cublasLtMatrixLayoutCreate(&created, type, rows, cols,
                                             static_cast<std::int64_t>(leading)));
        return created;
    }

    std::vector<float> download() const {
        std::vector<float> singles(leading * cols);
        if (type == CUDA_R_32F) {
            EXPECT_OK(cudaMemcpy(singles.data(), memory, bytes(), cudaMemcpyDeviceToHost));
            return singles;
        }
        std::vector<__nv_bfloat16> halves(leading * cols);
        EXPECT_OK(cudaMemcpy(halves.data(), memory, bytes(), cudaMemcpyDeviceToHost));
        for (std::size_t i = 0; i < halves.size(); ++i)
            singles[i] = __bfloat162float(halves[i]);
        return singles;
    }
};

/// src, dst, transpose a, transpose b, beta, bias
using Case = std::tuple<cudaDataType_t, cudaDataType_t, bool, bool, float, bool>;

class Product : public testing::TestWithParam<Case> {};

constexpr std::size_t m = 13;
constexpr std::size_t n = 5;
constexpr std::size_t k = 29;

struct Call {
    cublasLtHandle_t handle = nullptr;
    cublasLtMatmulDesc_t description = nullptr;
    cublasLtMatmulPreference_t preference = nullptr;
    cublasLtMatrixLayout_t layouts[3] = {};
    cublasLtMatmulHeuristicResult_t heuristic{};
    void* workspace = nullptr;
    static constexpr std::size_t workspace_bytes = 1 << 16;

    explicit Call(Matrix const& a, Matrix const& b, Matrix const& d, bool transpose_a,
                  bool transpose_b, void const* bias, std::uint32_t alignment) {
        EXPECT_OK(cublasLtCreate(&handle));
        EXPECT_OK(cublasLtMatmulDescCreate(&description, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        set(CUBLASLT_MATMUL_DESC_TRANSA, transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
        set(CUBLASLT_MATMUL_DESC_TRANSB, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
        if (bias) {
            set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
            set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
        }
        layouts[0] = a.layout();
        layouts[1] = b.layout();
        layouts[2] = d.layout();
        EXPECT_OK(cublasLtMatmulPreferenceCreate(&preference));
        EXPECT_OK(cublasLtMatmulPreferenceSetAttribute(preference,
                                                       CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                                       &workspace_bytes, sizeof workspace_bytes));
        for (auto const attribute : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
                                     CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
            EXPECT_OK(cublasLtMatmulPreferenceSetAttribute(preference, attribute, &alignment,
                                                           sizeof alignment));
        int found = 0;
        EXPECT_OK(cublasLtMatmulAlgoGetHeuristic(handle, description, layouts[0], layouts[1],
                                                 layouts[2], layouts[2], preference, 1, &heuristic,
                                                 &found));
        EXPECT_EQ(found, 1);
        EXPECT_LE(heuristic.workspaceSize, workspace_bytes);
        EXPECT_OK(cudaMalloc(&workspace, workspace_bytes));
    }
    ~Call() {
        EXPECT_OK(cudaFree(workspace));
        for (auto const layout : layouts)
            EXPECT_OK(cublasLtMatrixLayoutDestroy(layout));
        EXPECT_OK(cublasLtMatmulPreferenceDestroy(preference));
        EXPECT_OK(cublasLtMatmulDescDestroy(description));
        EXPECT_OK(cublasLtDestroy(handle));
    }
    Call(Call const&) = delete;
    Call& operator=(Call const&) = delete;

    template <class Value>
    void set(cublasLtMatmulDescAttributes_t attribute, Value value) {
        EXPECT_OK(cublasLtMatmulDescSetAttribute(description, attribute, &value, sizeof value));
    }

    cublasStatus_t run(void const* a, void const* b, void* d, float beta, std::size_t given) {
        float const alpha = 0.5f;
        return cublasLtMatmul(handle, description, &alpha, a, layouts[0], b, layouts[1], &beta, d,
                              layouts[2], d, layouts[2], &heuristic.algo, workspace, given,
                              nullptr);
    }
};

TEST_P(Product, EqualsLoops) {
    auto const [src, dst, transpose_a, transpose_b, beta, with_bias] = GetParam();
    Matrix const a{src, transpose_a ? k : m, transpose_a ? m : k, 1};
    Matrix const b{src, transpose_b ? n : k, transpose_b ? k : n, 2};
    Matrix const d{dst, m, n, 3};
    Matrix const bias{dst, m, 1, 4};
    std::vector<float> const va = a.download();
    std::vector<float> const vb = b.download();
    std::vector<float> const before = d.download();
    std::vector<float> const vbias = bias.download();
    Call call{a, b, d, transpose_a, transpose_b, with_bias ? bias.memory : nullptr, 2};
    EXPECT_OK(call.run(a.memory, b.memory, d.memory, beta, Call::workspace_bytes));
    EXPECT_OK(cudaDeviceSynchronize());
    std::vector<float> const result = d.download();
    for (std::size_t j = 0; j < n; ++j)
        for (std::size_t i = 0; i < d.leading; ++i) {
            std::size_t const at = j * d.leading + i;
            if (i >= m) { // between the columns
                EXPECT_EQ(result[at], before[at]);
                continue;
            }
            double sum = 0;
            for (std::size_t l = 0; l < k; ++l)
                sum += double{va[transpose_a ? i * a.leading + l : l * a.leading + i]} *
                       vb[transpose_b ? l * b.leading + j : j * b.leading + l];
            double const wanted =
                sum / 2 + double{beta} * before[at] + (with_bias ? double{vbias[i]} : 0);
            double const eps = dst == CUDA_R_32F ? 1e-6 : 1.0 / 256;
            EXPECT_NEAR(result[at], wanted, eps * (1 + std::fabs(wanted))) << i << ", " << j;
        }
}

INSTANTIATE_TEST_SUITE_P(AllForms, Product,
                         testing::Combine(testing::Values(CUDA_R_16BF),
                                          testing::Values(CUDA_R_32F, CUDA_R_16BF), testing::Bool(),
                                          testing::Bool(), testing::Values(0.0f, 1.0f),
                                          testing::Bool()));
INSTANTIATE_TEST_SUITE_P(Float32, Product,
                         testing::Combine(testing::Values(CUDA_R_32F), testing::Values(CUDA_R_32F),
                                          testing::Bool(), testing::Bool(),
                                          testing::Values(0.0f, 1.0f), testing::Bool()));

TEST(Heuristic, HoldsItsCallersToTheirPromises) {
    Matrix const a{CUDA_R_32F, m, k, 1};
    Matrix const b{CUDA_R_32F, k, n, 2};
    Matrix const d{CUDA_R_32F, m, n, 3};
    Call call{a, b, d, false, false, nullptr, 16};
    ASSERT_GT(call.heuristic.workspaceSize, 0u);
    EXPECT_EQ(call.run(a.memory, b.memory, d.memory, 0, call.heuristic.workspaceSize - 1),
              CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_EQ(
        call.run(static_cast<float*>(a.memory) + 1, b.memory, d.memory, 0, Call::workspace_bytes),
        CUBLAS_STATUS_INVALID_VALUE);
    EXPECT_OK(call.run(a.memory, b.memory, d.memory, 0, Call::workspace_bytes));
}

} // namespace
} // namespace evener::hostcuda
