// SPDX-License-Identifier: Apache-2.0

// async_main [correct | skip_wait | skip_sync | host_deref | oob_copy | late_reuse]
//
// A program as a trainer's: inputs are copied in from two pinned buffers on one stream while another
// computes a product by cuBLASLt and a kernel on them and copies each step's result out; events are
// all that orders the streams. Runs with 32 seeds, compares every element with a serial computation
// and prints how many seeds were flagged: none must be in the correct program, all in the others,
// each of which lacks one thing.

#include "hostcuda/scheduler.hpp"
#include "twins.hpp"
#include <cublasLt.h>
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

constexpr int rows = 24; // of the weights
constexpr int cols = 16; // of the weights; elements of an input vector
constexpr int batch = 8; // input vectors of a step
constexpr int steps = 12;
constexpr int seeds = 32;
constexpr int input_count = cols * batch;
constexpr int state_count = rows * batch;

template <class Code>
void require(Code code, char const* call) {
    if (static_cast<int>(code) == 0)
        return;
    std::printf("%s returned %d\n", call, static_cast<int>(code));
    throw static_cast<int>(code);
}
#define REQUIRE(call) require(call, #call)

float input_value(int step, int i) {
    return static_cast<float>((step * 37 + i * 11) % 23) / 8 - 1;
}

float weight(int i) {
    return static_cast<float>(i * 7 % 19) / 16 - 0.5f;
}

/// states[step][i], as the device computes them: state = state / 2 + weights * input, all by columns.
std::vector<std::vector<float>> expected_states() {
    std::vector<float> state(state_count, 0);
    std::vector<std::vector<float>> all;
    for (int step = 0; step < steps; ++step) {
        for (int j = 0; j < batch; ++j)
            for (int i = 0; i < rows; ++i) {
                float sum = 0;
                for (int l = 0; l < cols; ++l)
                    sum += weight(l * rows + i) * input_value(step, j * cols + l);
                float& value = state[static_cast<std::size_t>(j * rows + i)];
                value = value / 2 + sum;
            }
        all.push_back(state);
    }
    return all;
}

struct Buffers {
    float* weights = nullptr;
    float* inputs[2] = {};
    float* product = nullptr;
    float* state = nullptr;
    float* pinned_inputs[2] = {};
    float* pinned_states = nullptr;
    cudaStream_t copies = nullptr;
    cudaStream_t compute = nullptr;
    cudaEvent_t arrived[2] = {}; ///< the input is on the device
    cudaEvent_t used[2] = {};    ///< the input may be overwritten

    Buffers() {
        constexpr std::size_t size = sizeof(float);
        REQUIRE(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking));
        REQUIRE(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
        REQUIRE(cudaMalloc(&weights, rows * cols * size));
        REQUIRE(cudaMalloc(&product, state_count * size));
        REQUIRE(cudaMalloc(&state, state_count * size));
        REQUIRE(cudaMallocHost(&pinned_states, steps * state_count * size));
        for (int b = 0; b < 2; ++b) {
            REQUIRE(cudaMalloc(&inputs[b], input_count * size));
            REQUIRE(cudaMallocHost(&pinned_inputs[b], input_count * size));
            REQUIRE(cudaEventCreateWithFlags(&arrived[b], cudaEventDisableTiming));
            REQUIRE(cudaEventCreateWithFlags(&used[b], cudaEventDisableTiming));
        }
    }
    ~Buffers() {
        for (float* memory : {weights, product, state, inputs[0], inputs[1]})
            cudaFree(memory);
        for (float* memory : {pinned_states, pinned_inputs[0], pinned_inputs[1]})
            cudaFreeHost(memory);
        for (cudaEvent_t event : {arrived[0], arrived[1], used[0], used[1]})
            cudaEventDestroy(event);
        cudaStreamDestroy(copies);
        cudaStreamDestroy(compute);
    }
    Buffers(Buffers const&) = delete;
    Buffers& operator=(Buffers const&) = delete;
};

/// product = weights * input on the compute stream.
class Product {
  public:
    Product() {
        REQUIRE(cublasLtCreate(&handle_));
        REQUIRE(cublasLtMatmulDescCreate(&description_, CUBLAS_COMPUTE_32F, CUDA_R_32F));
        REQUIRE(cublasLtMatrixLayoutCreate(&weights_, CUDA_R_32F, rows, cols, rows));
        REQUIRE(cublasLtMatrixLayoutCreate(&input_, CUDA_R_32F, cols, batch, cols));
        REQUIRE(cublasLtMatrixLayoutCreate(&result_, CUDA_R_32F, rows, batch, rows));
    }
    ~Product() {
        cublasLtMatrixLayoutDestroy(weights_);
        cublasLtMatrixLayoutDestroy(input_);
        cublasLtMatrixLayoutDestroy(result_);
        cublasLtMatmulDescDestroy(description_);
        cublasLtDestroy(handle_);
    }
    Product(Product const&) = delete;
    Product& operator=(Product const&) = delete;

    void run(Buffers const& buffers, float const* input) {
        float const one = 1;
        float const zero = 0;
        REQUIRE(cublasLtMatmul(handle_, description_, &one, buffers.weights, weights_, input,
                               input_, &zero, buffers.product, result_, buffers.product, result_,
                               nullptr, nullptr, 0, buffers.compute));
    }

  private:
    cublasLtHandle_t handle_ = nullptr;
    cublasLtMatmulDesc_t description_ = nullptr;
    cublasLtMatrixLayout_t weights_ = nullptr;
    cublasLtMatrixLayout_t input_ = nullptr;
    cublasLtMatrixLayout_t result_ = nullptr;
};

void run_steps(Buffers& buffers, std::string const& bug) {
    Product product;
    std::vector<float> weights(rows * cols);
    for (std::size_t i = 0; i < weights.size(); ++i)
        weights[i] = weight(static_cast<int>(i));
    REQUIRE(cudaMemcpyAsync(buffers.weights, weights.data(), weights.size() * sizeof(float),
                            cudaMemcpyHostToDevice, buffers.compute));
    REQUIRE(cudaMemsetAsync(buffers.state, 0, state_count * sizeof(float), buffers.compute));
    for (int step = 0; step < steps; ++step) {
        int const b = step % 2;
        if (step >= 2) {
            if (bug != "late_reuse")
                REQUIRE(cudaEventSynchronize(buffers.arrived[b])); // the pinned buffer is free
            REQUIRE(cudaStreamWaitEvent(buffers.copies, buffers.used[b], 0));
        }
        for (int i = 0; i < input_count; ++i)
            buffers.pinned_inputs[b][i] = input_value(step, i);
        std::size_t const bytes = input_count * sizeof(float) + (bug == "oob_copy" ? 4 : 0);
        REQUIRE(cudaMemcpyAsync(buffers.inputs[b], buffers.pinned_inputs[b], bytes,
                                cudaMemcpyHostToDevice, buffers.copies));
        REQUIRE(cudaEventRecord(buffers.arrived[b], buffers.copies));
        if (bug != "skip_wait")
            REQUIRE(cudaStreamWaitEvent(buffers.compute, buffers.arrived[b], 0));
        product.run(buffers, buffers.inputs[b]);
        REQUIRE(cudaEventRecord(buffers.used[b], buffers.compute));
        evener::twins::add_to_half(buffers.state, buffers.product, state_count, buffers.compute);
        REQUIRE(cudaMemcpyAsync(buffers.pinned_states + step * state_count, buffers.state,
                                state_count * sizeof(float), cudaMemcpyDeviceToHost,
                                buffers.compute));
    }
    if (bug == "host_deref")
        std::printf("first state: %g\n", static_cast<double>(buffers.state[0]));
    if (bug != "skip_sync")
        REQUIRE(cudaStreamSynchronize(buffers.compute));
}

/// Whether anything is wrong with the run: an error of a call or an element that differs.
bool is_flagged(std::string const& bug, std::vector<std::vector<float>> const& expected) try {
    Buffers buffers;
    run_steps(buffers, bug);
    for (int step = 0; step < steps; ++step)
        for (int i = 0; i < state_count; ++i) {
            float const value = buffers.pinned_states[step * state_count + i];
            float const wanted =
                expected[static_cast<std::size_t>(step)][static_cast<std::size_t>(i)];
            if (!(std::fabs(value - wanted) <= 1e-5f * (1 + std::fabs(wanted))))
                return true;
        }
    return false;
} catch (int) {
    return true;
}

} // namespace

int main(int argc, char** argv) {
    std::string const bug = argc > 1 ? argv[1] : "correct";
    auto const expected = expected_states();
    int flagged = 0;
    for (int seed = 1; seed <= seeds; ++seed) {
        evener::hostcuda::set_seed(static_cast<std::uint64_t>(seed));
        flagged += is_flagged(bug, expected);
    }
    std::printf("flagged %d of %d\n", flagged, seeds);
    return flagged > 0;
}
