// SPDX-License-Identifier: Apache-2.0

// Speed of whole training steps on one rank with 2 threads against oneDNN's products of the model's
// own shapes, measured in the same run with the same threads and plain row-major layouts. One JSON
// line per compute type; `share` is the figure: model FLOPs per second (three forward passes of all
// products, causal attention counted half; nothing is recomputed) of the best of 10 warm steps, over
// the products' rate (best of 10 each, weighted by FLOPs). Run alone on the machine:
//   bin/step_bench
#include "bench/training.hpp"
#include <dnnl.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <tuple>

namespace {

using namespace evener;

constexpr int threads = 2;
constexpr int runs = 5;
constexpr std::int64_t sequences = 4;

/// Seconds of the best of 2 * `runs` warm calls of one oneDNN matmul.
double product_seconds(kernels::MatmulShape const& shape) {
    using dnnl::memory;
    auto const type = [](kernels::Element element) {
        return element == kernels::Element::float32 ? memory::data_type::f32
                                                    : memory::data_type::bf16;
    };
    static dnnl::engine const engine{dnnl::engine::kind::cpu, 0};
    static dnnl::stream stream{engine};
    memory::desc const a{{shape.m, shape.k},
                         type(shape.src),
                         shape.transpose_a ? memory::format_tag::ba : memory::format_tag::ab};
    memory::desc const b{{shape.k, shape.n},
                         type(shape.src),
                         shape.transpose_b ? memory::format_tag::ba : memory::format_tag::ab};
    memory::desc const dst{{shape.m, shape.n}, type(shape.dst), memory::format_tag::ab};
    dnnl::matmul const product{dnnl::matmul::primitive_desc{dnnl::matmul::desc{a, b, dst}, engine}};
    memory a_memory{a, engine};
    memory b_memory{b, engine};
    memory dst_memory{dst, engine};
    for (memory* const matrix : {&a_memory, &b_memory}) {
        auto* const bytes = static_cast<unsigned char*>(matrix->get_data_handle());
        for (std::size_t i = 0; i < matrix->get_desc().get_size(); ++i)
            bytes[i] = i % 2 == 0 ? static_cast<unsigned char>(i) : 0x3c; // small positive numbers
    }
    double best = 1e300;
    for (int run = 0; run <= 2 * runs; ++run) { // as often as the step is measured
        auto const begin = std::chrono::steady_clock::now();
        product.execute(
            stream,
            {{DNNL_ARG_SRC, a_memory}, {DNNL_ARG_WEIGHTS, b_memory}, {DNNL_ARG_DST, dst_memory}});
        stream.wait();
        double const seconds =
            std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
        if (run > 0)
            best = std::min(best, seconds);
    }
    return best;
}

/// GF/s over all products that a training step makes, each shape measured once.
double products_gflops(model::Model const& model, core::DType type) {
    using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool, bool>;
    std::map<Key, double> measured;
    double seconds = 0;
    double flops = 0;
    for (std::int64_t l = 0; l < model.layer_count(); ++l) {
        auto const operations = model.layer(core::LayerId{l}).operations(sequences, type);
        for (model::Phase const phase :
             {model::Phase::forward, model::Phase::backward_input, model::Phase::backward_weight})
            for (model::Operation const& operation : operations.of(phase)) {
                if (operation.kind != model::Operation::Kind::kernel ||
                    operation.shape.kind != kernels::OperationKind::matmul)
                    continue;
                kernels::MatmulShape const& shape = operation.shape.matmul;
                Key const key{shape.m,           shape.n,
                              shape.k,           shape.transpose_a,
                              shape.transpose_b, shape.dst == kernels::Element::float32};
                auto const [found, added] = measured.try_emplace(key);
                if (added)
                    found->second = product_seconds(shape);
                seconds += found->second;
                flops += 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) *
                         static_cast<double>(shape.k);
            }
    }
    return flops / seconds / 1e9;
}

void measure(comm::MpiSession const& mpi, comm::Transport& transport, core::DType type) {
    model::Model const model{bench::speed_model()};
    double best = 1e300;
    std::vector<double> all;
    double products = 0;
    {
        bench::Training training{mpi,
                                 transport,
                                 model,
                                 bench::chain_plan(model, {0}, sequences, sequences, type),
                                 {.threads = threads}};
        if (!training.device().supports(type)) {
            fmt::print("{{\"bench\": \"step\", \"type\": \"{}\", \"skipped\": \"this processor "
                       "does not compute in it\"}}\n",
                       core::name_of(type));
            return;
        }
        training.step();
        training.step();
        for (int run = 0; run < runs; ++run) {
            all.push_back(training.step());
            best = std::min(best, all.back());
        }
        products = products_gflops(model, type);
        for (int run = 0; run < runs; ++run) { // before and after the baseline: the machine drifts
            all.push_back(training.step());
            best = std::min(best, all.back());
        }
    }
    double const flops = model.training_flops() * sequences;
    double const rate = flops / best / 1e9;
    fmt::print("{{\"bench\": \"step\", \"type\": \"{}\", \"share\": {:.3f}, \"step_gflops\": "
               "{:.1f}, \"products_gflops\": {:.1f}, \"step_seconds_best\": {:.4f}, "
               "\"step_seconds_median\": {:.4f}, \"step_seconds_worst\": {:.4f}, \"n\": {}, "
               "\"threads\": {}, \"baseline\": \"oneDNN matmul of the same shapes\"}}\n",
               core::name_of(type), rate / products, rate, products, best, bench::median(all),
               *std::max_element(all.begin(), all.end()), all.size(), threads);
}

} // namespace

int main() {
    setenv("OMP_NUM_THREADS", "2", 0);
    comm::MpiSession const mpi{nullptr, nullptr};
    comm::Transport transport{mpi.world().get()};
    for (core::DType const type : {core::DType::float32, core::DType::bfloat16})
        measure(mpi, transport, type);
}
