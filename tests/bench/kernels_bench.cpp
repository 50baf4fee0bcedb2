// SPDX-License-Identifier: Apache-2.0

// Speed of each operation of the host plug-in at the sizes of one training step: width 512, 8
// heads, feed-forward 1408, vocabulary 8192, 4 sequences of 512 tokens. One JSON line per operation
// and type:
//   {"operation": ..., "type": ..., "ms": of the fastest repetition, "gflops": ..., "gbytes": per
//   second}
// Usage: kernels_bench [part of "operation type"]; EVENER_TEST_THREADS threads (2),
// EVENER_TEST_PLUGIN another plug-in.

#include "kernels/harness.hpp"

#include <fmt/core.h>
#include <sys/mman.h>

#include <chrono>
#include <cstring>
#include <ctime>

namespace evener::kernels::test {
namespace {

constexpr std::int64_t tokens = 2048, length = 512, width = 512, heads = 8, ffn = 1408;
constexpr std::int64_t vocabulary = 8192;

char const* name_of(Element type) {
    return type == Element::float32 ? "float32" : "bfloat16";
}

struct Bench {
    std::string name;
    OperationShape shape;
    std::vector<std::int64_t> operand_bytes; ///< in the order of the contract; 0 = null
    double flops = 0;
    double bytes = 0; ///< that must move at least
};

/// Memory of all benches, in huge pages where the system gives them: bfloat16 numbers 0.5 .. 1 of
/// both signs, which read as float32 are such numbers too.
class Memory {
  public:
    explicit Memory(std::int64_t bytes) : bytes_{(bytes / huge_page + 1) * huge_page} {
        begin_ = static_cast<std::uint16_t*>(
            ::operator new (static_cast<std::size_t>(bytes_), std::align_val_t{huge_page}));
        madvise(begin_, static_cast<std::size_t>(bytes_), MADV_HUGEPAGE);
        for (std::int64_t i = 0; i < bytes_ / 2; ++i)
            begin_[i] = static_cast<std::uint16_t>(0x3f00 | (i * 2654435761 >> 7 & 0x7f) |
                                                   (i * 40503 >> 3 & 1) << 15);
    }
    ~Memory() { ::operator delete (begin_, std::align_val_t{huge_page}); }
    Memory(Memory const&) = delete;
    Memory& operator=(Memory const&) = delete;

    void* at(std::int64_t bytes) const { return begin_ + bytes / 2; }

  private:
    static constexpr std::int64_t huge_page = 2 << 20;
    std::int64_t bytes_;
    std::uint16_t* begin_;
};

/// Time the calling thread computed: with one thread, the time on a machine of its own.
double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

/// Of the fastest repetition: wall time, or with one thread what it computed.
double best_seconds(OpenTable const& open, Prepared* prepared, void* const* operands,
                    void* workspace) {
    double best = 1e9;
    double spent = 0;
    for (int i = 0; i < 50 && (i < 5 || spent < 0.4); ++i) {
        auto const start = std::chrono::steady_clock::now();
        double const cpu_start = cpu_seconds();
        Reason reason;
        open.table().run(open.device(), prepared, operands, workspace, &reason);
        double const cpu = cpu_seconds() - cpu_start;
        std::chrono::duration<double> const wall = std::chrono::steady_clock::now() - start;
        spent += wall.count();
        best = std::min(best, test_threads() == 1 ? cpu : wall.count());
    }
    return best;
}

void measure(OpenTable const& open, Bench const& bench, Element type) {
    std::int64_t total = 0;
    for (std::int64_t const bytes : bench.operand_bytes)
        total += (bytes + 4159) / 64 * 64;
    Memory memory{total + 4096};
    std::vector<void*> operands;
    std::int64_t at = 0;
    for (std::int64_t const bytes : bench.operand_bytes) {
        operands.push_back(bytes > 0 ? memory.at(at) : nullptr);
        at += (bytes + 4159) / 64 * 64;
    }
    auto const kind = bench.shape.kind;
    if (kind == OperationKind::embedding || kind == OperationKind::embedding_gradient)
        for (std::int64_t r = 0; r < tokens; ++r)
            static_cast<std::int32_t*>(operands[0])[r] =
                static_cast<std::int32_t>(r * 7919 % vocabulary);
    if (kind == OperationKind::cross_entropy)
        for (std::int64_t r = 0; r < bench.shape.cross_entropy.rows; ++r)
            static_cast<std::int32_t*>(operands[1])[r] =
                static_cast<std::int32_t>(r * 7919 % vocabulary);
    if (kind == OperationKind::adamw) {
        OptimizerScalars const scalars{1e-3f, 0.9f, 0.95f, 1e-8f, 0.1f, 1, 0.1f, 0.05f};
        std::memcpy(operands[AdamwOperand::scalars], &scalars, sizeof scalars);
        for (std::int64_t i = 0; i < bench.shape.optimizer.elements; ++i)
            static_cast<float*>(operands[AdamwOperand::moment2])[i] = 1e-3f;
    }

    Reason reason;
    std::int64_t workspace_bytes = 0;
    Prepared* const prepared =
        open.table().prepare(open.device(), &bench.shape, &workspace_bytes, &reason);
    if (prepared == nullptr) {
        fmt::print(R"({{"operation": "{}", "refused": "{}"}})"
                   "\n",
                   bench.name, reason.text);
        return;
    }
    std::unique_ptr<std::byte, void (*)(std::byte*)> const workspace{
        static_cast<std::byte*>(
            ::operator new (static_cast<std::size_t>(workspace_bytes), std::align_val_t{64})),
        [](std::byte* p) { ::operator delete (p, std::align_val_t{64}); }};
    double const seconds = best_seconds(open, prepared, operands.data(), workspace.get());
    open.table().release(open.device(), prepared);
    fmt::print(R"({{"operation": "{}", "type": "{}", "ms": {:.3f}, "gflops": {:.1f}, )"
               R"("gbytes": {:.1f}, "workspace_bytes": {}}})"
               "\n",
               bench.name, name_of(type), seconds * 1e3, bench.flops / seconds * 1e-9,
               bench.bytes / seconds * 1e-9, workspace_bytes);
}

Bench product(char const* name, MatmulShape shape, Element type) {
    Bench bench;
    bench.name = fmt::format("matmul {} {}x{}x{}", name, shape.m, shape.n, shape.k);
    shape.src = type;
    shape.dst = shape.accumulate ? Element::float32 : type;
    bench.shape.kind = OperationKind::matmul;
    bench.shape.matmul = shape;
    std::int64_t const e = bytes_of(type), c = shape.m * shape.n * bytes_of(shape.dst);
    bench.operand_bytes = {shape.m * shape.k * e, shape.k * shape.n * e, 0, shape.residual ? c : 0,
                           c};
    bench.flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
    return bench;
}

/// The three products of a linear layer: y = x w^T, dx = dy w, dw += dy^T x.
void add_linear(std::vector<Bench>& all, std::int64_t in, std::int64_t out, Element type) {
    MatmulShape shape{tokens, out, in, false, true};
    all.push_back(product("forward", shape, type));
    all.push_back(product("input_gradient", {tokens, in, out}, type));
    shape = {out, in, tokens, true, false};
    shape.accumulate = true;
    all.push_back(product("weight_gradient", shape, type));
}

Bench make(char const* name, OperationKind kind, std::vector<std::int64_t> operand_bytes,
           std::int64_t moved = 0) {
    Bench bench;
    bench.name = name;
    bench.shape.kind = kind;
    for (std::int64_t const bytes : operand_bytes)
        bench.bytes += static_cast<double>(bytes);
    bench.bytes += static_cast<double>(moved);
    bench.operand_bytes = std::move(operand_bytes);
    return bench;
}

std::vector<Bench> benches(Element type) {
    std::vector<Bench> all;
    add_linear(all, width, 3 * width, type);
    add_linear(all, width, width, type);
    add_linear(all, width, 2 * ffn, type);
    add_linear(all, ffn, width, type);
    add_linear(all, width, vocabulary, type);
    MatmulShape residual{tokens, width, ffn, false, true};
    residual.residual = true;
    all.push_back(product("residual", residual, type));

    std::int64_t const e = bytes_of(type), row = tokens * width * e, wide = 3 * row;
    std::int64_t const hidden = tokens * ffn * e;
    using K = OperationKind;
    RmsNormShape const norm{tokens, width, type};
    all.push_back(make("rms_norm", K::rms_norm, {row, width * e, row, tokens * 4}));
    all.back().shape.rms_norm = norm;
    all.push_back(make("rms_norm_backward", K::rms_norm_backward,
                       {row, width * e, tokens * 4, row, row, row}));
    all.back().shape.rms_norm = norm;
    all.push_back(make("rms_norm_weight_gradient", K::rms_norm_weight_gradient,
                       {row, tokens * 4, row, width * 4}));
    all.back().shape.rms_norm = norm;
    all.push_back(make("rotary", K::rotary, {wide}, row));
    all.back().shape.rotary = {tokens, length, heads, heads, width / heads, 1e4, false, type};

    AttentionShape const attention{tokens / length, length, heads, heads, width / heads, type};
    double const causal = 4.0 * static_cast<double>(tokens) * (length + 1) / 2 * width;
    all.push_back(make("attention", K::attention, {wide, row, tokens * heads * 4}));
    all.back().shape.attention = attention;
    all.back().flops = causal;
    all.push_back(make("attention_backward", K::attention_backward,
                       {wide, row, tokens * heads * 4, row, wide}));
    all.back().shape.attention = attention;
    all.back().flops = causal * 2.5;

    all.push_back(make("swiglu", K::swiglu, {2 * hidden, hidden}));
    all.back().shape.swiglu = {tokens, ffn, type};
    all.push_back(make("swiglu_backward", K::swiglu_backward, {2 * hidden, hidden, 2 * hidden}));
    all.back().shape.swiglu = {tokens, ffn, type};

    EmbeddingShape const embedding{tokens, width, vocabulary, type};
    all.push_back(make("embedding", K::embedding, {tokens * 4, vocabulary * width * e, row}));
    all.back().shape.embedding = embedding;
    all.back().bytes = static_cast<double>(2 * row);
    all.push_back(make("embedding_gradient", K::embedding_gradient,
                       {tokens * 4, row, vocabulary * width * 4}));
    all.back().shape.embedding = embedding;
    all.back().bytes = static_cast<double>(row + 2 * tokens * width * 4);

    std::int64_t const slice = 256; // rows of logits at a time
    all.push_back(make("cross_entropy", K::cross_entropy,
                       {slice * vocabulary * 4, slice * 4, 64, slice * 4, slice * vocabulary * e}));
    all.back().shape.cross_entropy = {slice, vocabulary, true, type};

    std::int64_t const elements = 8 << 20;
    all.push_back(make("adamw", K::adamw,
                       {elements * 4, elements * 4, elements * 4, elements * 4, elements * e, 64},
                       elements * 12));
    all.back().shape.optimizer = {elements, type};
    all.push_back(make("convert", K::convert, {elements * 4, elements * e}));
    all.back().shape.convert = {elements, Element::float32, type};
    all.push_back(make("clear", K::clear, {elements * 4}));
    all.back().shape.clear = {elements * 4};
    all.push_back(make("column_sums", K::column_sums, {wide, 3 * width * 4}));
    all.back().shape.column_sums = {tokens, 3 * width, type};
    all.push_back(make("sum_squares", K::sum_squares, {elements * 4, 8}));
    all.back().shape.sum_squares = {elements};
    return all;
}

int run_benches(std::string const& filter) {
    if (plugin_table() == nullptr) {
        fmt::print(stderr, "{}\n", why_unusable());
        return 77;
    }
    OpenTable const open{plugin_table(), test_threads()};
    fmt::print(R"({{"plugin": "{}", "threads": {}}})"
               "\n",
               plugin_table()->description, test_threads());
    for (Element const type : {Element::float32, Element::bfloat16})
        for (Bench const& bench : benches(type))
            if (fmt::format("{} {}", bench.name, name_of(type)).find(filter) != std::string::npos)
                measure(open, bench, type);
    return 0;
}

} // namespace
} // namespace evener::kernels::test

int main(int argc, char** argv) {
    return evener::kernels::test::run_benches(argc > 1 ? argv[1] : "");
}
