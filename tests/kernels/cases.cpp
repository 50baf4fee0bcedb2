// SPDX-License-Identifier: Apache-2.0

#include "cases.hpp"

#include "kernels/reference/reference.hpp"

#include <algorithm>
#include <string>

namespace evener::kernels::test {
namespace {

constexpr Element types[] = {Element::float32, Element::bfloat16};

char const* name_of(Element type) {
    return type == Element::float32 ? "f32" : "bf16";
}

template <class... Parts>
std::string join(Parts const&... parts) {
    std::string text;
    auto const add = [&](auto const& part) {
        if (!text.empty())
            text += '_';
        if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>)
            text += std::to_string(part);
        else
            text += part;
    };
    (add(parts), ...);
    return text;
}

Operand input(Element type, std::int64_t count, std::uint64_t seed, double scale = 1) {
    return {storage_of(type), count, Role::input, noise(seed, scale)};
}
Operand updated(Storage storage, std::int64_t count, std::uint64_t seed) {
    return {storage, count, Role::updated, noise(seed)};
}
/// What an output holds before: something that shows if it is read or left.
Operand output(Storage storage, std::int64_t count) {
    return {storage, count, Role::output, constant(7e4)};
}
Operand absent() {
    Operand operand;
    operand.null = true;
    return operand;
}

} // namespace

Case matmul_case(MatmulShape const& s, char const* label, bool in_place) {
    Case test;
    test.shape.kind = OperationKind::matmul;
    test.shape.matmul = s;
    test.name = join("matmul", name_of(s.src), name_of(s.dst), s.m, s.n, s.k,
                     s.transpose_a ? "ta" : "na", s.transpose_b ? "tb" : "nb", label);
    test.k = s.k;
    test.type = s.dst == Element::float32 ? Element::float32 : s.src;
    test.operands = {input(s.src, s.m * s.k, 1), input(s.src, s.k * s.n, 2),
                     s.bias ? input(s.src, s.n, 3) : absent(),
                     s.residual ? input(s.src, s.m * s.n, 4) : absent(),
                     s.accumulate ? updated(storage_of(s.dst), s.m * s.n, 5)
                                  : output(storage_of(s.dst), s.m * s.n)};
    if (in_place) {
        test.operands[MatmulOperand::residual].role = Role::updated;
        test.operands[MatmulOperand::dst].same_as = MatmulOperand::residual;
    }
    return test;
}

namespace {

constexpr Size sizes[] = {{71, 229}, {1, 1},  {0, 5},    {5, 0},   {1, 64},
                          {130, 48}, {3, 17}, {3, 4099}, {2, 4104}}; // wider than a block

Case rms_norm_case(OperationKind kind, Size size, Element type) {
    Case test;
    test.shape.kind = kind;
    test.shape.rms_norm = {};
    test.shape.rms_norm.rows = size.rows;
    test.shape.rms_norm.cols = size.cols;
    test.shape.rms_norm.type = type;
    test.name = join(test::name_of(kind), name_of(type), size.rows, size.cols);
    test.type = type;
    test.k = kind == OperationKind::rms_norm_weight_gradient ? size.rows : size.cols;
    return test;
}

} // namespace

void add_rms_norm(std::vector<Case>& cases, Size size, Element type) {
    std::int64_t const all = size.rows * size.cols;
    Operand const x = input(type, all, 11);
    Operand const weight{storage_of(type), size.cols, Role::input, noise(12, 0.5, 1)};
    Operand const rstd{Storage::float32, size.rows, Role::input, noise(13, 0.5, 1.5)};
    Operand const dy = input(type, all, 14);

    Case test = rms_norm_case(OperationKind::rms_norm, size, type);
    test.operands = {x, weight, output(storage_of(type), all), output(Storage::float32, size.rows)};
    cases.push_back(test);
    test.name += "_given";
    test.shape.rms_norm.rstd_given = true;
    test.operands[RmsNormOperand::rstd] = rstd;
    cases.push_back(test);

    test = rms_norm_case(OperationKind::rms_norm_backward, size, type);
    test.operands = {x, weight, rstd, dy, absent(), output(storage_of(type), all)};
    cases.push_back(test);
    test.name += "_residual";
    test.operands[RmsNormBackwardOperand::residual] = input(type, all, 15);
    cases.push_back(test);
    test.name += "_in_place";
    test.operands[RmsNormBackwardOperand::residual].role = Role::updated;
    test.operands[RmsNormBackwardOperand::dx].same_as = RmsNormBackwardOperand::residual;
    cases.push_back(test);

    test = rms_norm_case(OperationKind::rms_norm_weight_gradient, size, type);
    test.type = Element::float32; // sums of exact products
    test.operands = {x, rstd, dy, updated(Storage::float32, size.cols, 16)};
    cases.push_back(test);
}

void add_swiglu(std::vector<Case>& cases, Size size, Element type) {
    std::int64_t const all = size.rows * size.cols;
    Case test;
    test.shape.kind = OperationKind::swiglu;
    test.shape.swiglu = {size.rows, size.cols, type};
    test.name = join("swiglu", name_of(type), size.rows, size.cols);
    test.type = type;
    test.operands = {input(type, 2 * all, 21, 6), output(storage_of(type), all)};
    cases.push_back(test);
    test.shape.kind = OperationKind::swiglu_backward;
    test.name = join("swiglu_backward", name_of(type), size.rows, size.cols);
    test.operands = {input(type, 2 * all, 21, 6), input(type, all, 22),
                     output(storage_of(type), 2 * all)};
    cases.push_back(test);
    test.name += "_in_place";
    test.operands[SwigluBackwardOperand::gate_up].role = Role::updated;
    test.operands[SwigluBackwardOperand::d_gate_up].same_as = SwigluBackwardOperand::gate_up;
    cases.push_back(test);
}

void add_embedding(std::vector<Case>& cases, Size size, Element type, std::int64_t vocabulary) {
    std::int64_t const all = size.rows * size.cols;
    Operand const tokens{Storage::int32, size.rows, Role::input, integers(31, vocabulary)};
    Case test;
    test.shape.kind = OperationKind::embedding;
    test.shape.embedding = {size.rows, size.cols, vocabulary, type};
    test.name = join("embedding", name_of(type), size.rows, size.cols, vocabulary);
    test.type = type;
    test.operands = {tokens, input(type, vocabulary * size.cols, 32),
                     output(storage_of(type), all)};
    cases.push_back(test);
    test.shape.kind = OperationKind::embedding_gradient;
    test.name = join("embedding_gradient", name_of(type), size.rows, size.cols, vocabulary);
    test.type = Element::float32;
    test.k = size.rows / vocabulary + 1;
    test.operands = {tokens, input(type, all, 33),
                     updated(Storage::float32, vocabulary * size.cols, 34)};
    cases.push_back(test);
}

void add_cross_entropy(std::vector<Case>& cases, Size size, Element type) {
    std::int64_t const all = size.rows * size.cols;
    auto const some_masked = [cols = size.cols](std::int64_t i) {
        return i % 5 == 2 ? -1 : integers(41, cols)(i);
    };
    Case test;
    test.shape.kind = OperationKind::cross_entropy;
    test.shape.cross_entropy = {size.rows, size.cols, false, type};
    test.name = join("cross_entropy", name_of(type), size.rows, size.cols);
    test.type = Element::float32;
    test.k = size.cols;
    test.operands = {{Storage::float32, all, Role::input, noise(42, 8)},
                     {Storage::int32, size.rows, Role::input, some_masked},
                     absent(),
                     output(Storage::float32, size.rows),
                     absent()};
    cases.push_back(test);
    using O = CrossEntropyOperand;
    test.name += "_gradient";
    test.shape.cross_entropy.gradient = true;
    test.type = type;
    test.operands[O::scale] = {Storage::float32, 1, Role::input, constant(0.125)};
    test.operands[O::dlogits] = output(storage_of(type), all);
    cases.push_back(test);
    if (type == Element::float32) {
        test.name += "_in_place";
        test.operands[O::logits].role = Role::updated;
        test.operands[O::dlogits].same_as = O::logits;
        cases.push_back(test);
    }
}

Case rotary_case(RotaryShape const& s, char const* label) {
    Case test;
    test.shape.kind = OperationKind::rotary;
    test.shape.rotary = s;
    test.name = join("rotary", name_of(s.type), s.rows, s.head_size, label);
    test.type = s.type;
    std::int64_t const cols = (s.query_heads + 2 * s.key_heads) * s.head_size;
    test.operands = {updated(storage_of(s.type), s.rows * cols, 51)};
    return test;
}

void add_optimizers(std::vector<Case>& cases, std::int64_t elements, Element type) {
    Case test;
    test.shape.kind = OperationKind::adamw;
    test.shape.optimizer = {elements, type};
    test.name = join("adamw", name_of(type), elements);
    test.scalars = {0.01f, 0.9f, 0.95f, 1e-8f, 0.1f, 0.5f, 0.19f, 0.0975f};
    Operand const gradients = input(Element::float32, elements, 73);
    Operand const weights = output(storage_of(type), elements);
    Operand const scalars{Storage::scalars, 1, Role::input, {}};
    test.operands = {updated(Storage::float32, elements, 71),
                     updated(Storage::float32, elements, 72),
                     {Storage::float32, elements, Role::updated, noise(74, 0.4, 0.5)},
                     gradients,
                     weights,
                     scalars};
    cases.push_back(test);
    test.name += "_no_weights";
    test.operands[AdamwOperand::weights] = absent();
    cases.push_back(test);
    test.shape.kind = OperationKind::sgd;
    test.name = join("sgd", name_of(type), elements);
    test.operands = {updated(Storage::float32, elements, 71), gradients, weights, scalars};
    cases.push_back(test);
    test.name += "_no_weights";
    test.operands[SgdOperand::weights] = absent();
    cases.push_back(test);
}

std::vector<Case> matmul_cases() {
    std::vector<Case> cases;
    std::int64_t const shapes[][3] = {{71, 229, 53}, {1, 1, 1},    {0, 3, 5},
                                      {3, 0, 5},     {3, 5, 0},    {101, 263, 67},
                                      {1, 64, 37},   {64, 1, 129}, {96, 128, 64}};
    for (Element const src : types) {
        for (Element const dst : types) {
            if (src == Element::float32 && dst != src)
                continue;
            for (auto const& [m, n, k] : shapes) {
                MatmulShape s{m, n, k};
                s.src = src;
                s.dst = dst;
                for (int transposes = 0; transposes < 4; ++transposes) {
                    s.transpose_a = (transposes & 1) != 0;
                    s.transpose_b = (transposes & 2) != 0;
                    MatmulShape special = s;
                    cases.push_back(matmul_case(special, "plain"));
                    special.accumulate = true;
                    cases.push_back(matmul_case(special, "accumulate"));
                    special = s;
                    special.bias = true;
                    cases.push_back(matmul_case(special, "bias"));
                    special.residual = true;
                    cases.push_back(matmul_case(special, "bias_residual"));
                    if (src == dst)
                        cases.push_back(matmul_case(special, "bias_residual_in_place", true));
                }
            }
        }
    }
    return cases;
}

std::vector<Case> row_cases() {
    std::vector<Case> cases;
    for (Element const type : types) {
        for (Size const size : sizes) {
            add_rms_norm(cases, size, type);
            add_swiglu(cases, size, type);
            if (size.cols > 0)
                add_cross_entropy(cases, size, type);
            add_embedding(cases, size, type, 13);
        }
        add_embedding(cases, {400, 67}, type, 1);
        add_embedding(cases, {2100, 19}, type, 701); // more than are looked through at once
        add_embedding(cases, {1301, 16}, type, 3);
        for (bool const inverse : {false, true}) {
            char const* const label = inverse ? "inverse" : "forward";
            cases.push_back(rotary_case({71, 13, 3, 1, 10, 1e4, inverse, type}, label));
            cases.push_back(rotary_case({34, 17, 4, 2, 64, 5e5, inverse, type}, label));
            cases.push_back(rotary_case({4001, 4001, 1, 1, 6, 5e5, inverse, type}, label));
            cases.push_back(rotary_case({0, 7, 2, 2, 8, 1e4, inverse, type}, label));
            cases.push_back(rotary_case({1, 1, 1, 1, 2, 1e4, inverse, type}, label));
        }
    }
    return cases;
}

Case attention_case(AttentionShape const& s) {
    std::int64_t const rows = s.sequences * s.sequence_length;
    std::int64_t const cols = (s.query_heads + 2 * s.key_heads) * s.head_size;
    Case test;
    test.shape.kind = OperationKind::attention;
    test.shape.attention = s;
    test.name = join("attention", name_of(s.type), s.sequences, s.sequence_length, s.query_heads,
                     s.key_heads, s.head_size);
    test.type = s.type;
    test.k = s.head_size; // of the scores; the weights sum to 1
    test.operands = {input(s.type, rows * cols, 61, 2),
                     output(storage_of(s.type), rows * s.query_heads * s.head_size),
                     output(Storage::float32, rows * s.query_heads)};
    return test;
}

Case attention_backward_case(AttentionShape const& s) {
    Case const forward = attention_case(s);
    OpenTable const reference{reference::reference_table(), 1};
    auto const results = run(reference, forward);
    auto const given = [](std::vector<double> values) {
        return [values = std::move(values)](std::int64_t i) {
            return values[static_cast<std::size_t>(i)];
        };
    };
    Case test = forward;
    test.shape.kind = OperationKind::attention_backward;
    test.name = "attention_backward" + forward.name.substr(9);
    Operand o = forward.operands[AttentionOperand::o];
    Operand lse = forward.operands[AttentionOperand::lse];
    Operand const d_o = input(s.type, o.count, 62);
    o.role = lse.role = Role::input;
    o.fill = given(results[AttentionOperand::o]);
    lse.fill = given(results[AttentionOperand::lse]);
    Operand const& qkv = forward.operands[AttentionOperand::qkv];
    test.k = s.head_size + s.sequence_length;
    test.operands = {qkv, o, lse, d_o, output(qkv.storage, qkv.count)};
    return test;
}

Case column_sums_case(Size size, Element type) {
    Case test;
    test.shape.kind = OperationKind::column_sums;
    test.shape.column_sums = {size.rows, size.cols, type};
    test.name = join("column_sums", name_of(type), size.rows, size.cols);
    test.k = size.rows;
    test.operands = {input(type, size.rows * size.cols, 84),
                     updated(Storage::float32, size.cols, 85)};
    return test;
}

std::vector<Case> attention_cases() {
    std::vector<Case> cases;
    AttentionShape const shapes[] = {{2, 71, 6, 2, 19},  {1, 1, 1, 1, 1},     {3, 64, 2, 2, 64},
                                     {1, 131, 4, 1, 80}, {2, 128, 1, 1, 32},  {0, 9, 2, 1, 8},
                                     {2, 0, 2, 1, 8},    {2, 7, 0, 0, 8},     {1, 65, 3, 3, 1},
                                     {1, 37, 4, 2, 96},  {1, 139, 2, 1, 128}, {1, 67, 2, 1, 72},
                                     {1, 35, 2, 2, 256}};
    for (Element const type : types) {
        for (AttentionShape shape : shapes) {
            shape.type = type;
            cases.push_back(attention_case(shape));
            cases.push_back(attention_backward_case(shape));
        }
    }
    return cases;
}

void add_vectors(std::vector<Case>& cases, std::int64_t elements) {
    for (Element const type : types) {
        add_optimizers(cases, elements, type);
        for (Element const dst : types) {
            Case test;
            test.shape.kind = OperationKind::convert;
            test.shape.convert = {elements, type, dst};
            test.name = join("convert", name_of(type), name_of(dst), elements);
            test.type = dst;
            test.operands = {input(type, elements, 81, 300), output(storage_of(dst), elements)};
            cases.push_back(test);
        }
    }
    Case test;
    test.shape.kind = OperationKind::clear;
    test.shape.clear = {elements * 4};
    test.name = join("clear", elements);
    test.operands = {output(Storage::float32, elements)};
    cases.push_back(test);

    test.shape.kind = OperationKind::sum_squares;
    test.shape.sum_squares = {elements};
    test.name = join("sum_squares", elements);
    test.k = elements;
    test.operands = {input(Element::float32, elements, 82), output(Storage::float64, 1)};
    cases.push_back(test);

    test.shape.kind = OperationKind::segment_sums;
    test.shape.segment_sums = {7, elements / 7};
    test.name = join("segment_sums", elements);
    test.operands = {input(Element::float32, 7 * (elements / 7), 83), output(Storage::float64, 7)};
    cases.push_back(test);
}

std::vector<Case> vector_cases() {
    std::vector<Case> cases;
    for (std::int64_t const elements : {0, 1, 16, 229, 40009})
        add_vectors(cases, elements);
    for (Element const type : types) {
        for (Size const size : sizes)
            cases.push_back(column_sums_case(size, type));
        cases.push_back(column_sums_case({16411, 8}, type)); // more than 128 parts of 128 rows
    }
    return cases;
}

std::vector<Case> all_cases() {
    std::vector<Case> cases = matmul_cases();
    for (auto const& more : {row_cases(), attention_cases(), vector_cases()})
        cases.insert(cases.end(), more.begin(), more.end());
    return cases;
}

} // namespace evener::kernels::test
