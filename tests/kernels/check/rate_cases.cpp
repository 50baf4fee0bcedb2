// SPDX-License-Identifier: Apache-2.0

#include "kernels/cases.hpp"

#include "rates.hpp"

#include <algorithm>

namespace evener::kernels::test {
namespace {

/// What the cases are cut to. A GPU's cache holds none of the large operands.
struct Sizes {
    std::int64_t rows;
    std::int64_t hidden;
    std::int64_t ffn;
    std::int64_t vocabulary;
    std::int64_t elements; ///< of vectors
    std::int64_t sequence;
    std::int64_t heads;
    std::int64_t square; ///< of the product that sets the rate
};
constexpr Sizes large{16384, 4096, 8192, 32000, 1 << 26, 4096, 32, 8192};
constexpr Sizes little{24, 32, 40, 50, 300, 12, 4, 48};

std::int64_t moved_bytes(Case const& test) {
    std::int64_t bytes = 0;
    for (Operand const& operand : test.operands)
        if (!operand.null && operand.same_as < 0)
            bytes +=
                operand.count * size_of(operand.storage) * (operand.role == Role::updated ? 2 : 1);
    return bytes;
}

RateCase by_bytes(Case test) {
    RateCase result{std::move(test)};
    result.bytes = moved_bytes(result.test);
    auto const& shape = result.test.shape;
    if (shape.kind != OperationKind::embedding && shape.kind != OperationKind::embedding_gradient)
        return result;
    // Of the table only the rows of the tokens count, each token's read or written once.
    EmbeddingShape const& s = shape.embedding;
    std::int64_t const table = s.vocabulary * s.cols;
    std::int64_t const seen = std::min(s.rows, s.vocabulary) * s.cols;
    if (shape.kind == OperationKind::embedding)
        result.bytes -= (table - seen) * (s.type == Element::float32 ? 4 : 2);
    else
        result.bytes -= 2 * (table - seen) * 4;
    return result;
}

RateCase product(MatmulShape const& s, char const* label) {
    RateCase result{matmul_case(s, label)};
    result.bytes = moved_bytes(result.test);
    result.operations =
        2.0 * static_cast<double>(s.m) * static_cast<double>(s.n) * static_cast<double>(s.k);
    return result;
}

void add_products(std::vector<RateCase>& cases, Sizes const& sizes, Element type) {
    MatmulShape square{sizes.square, sizes.square, sizes.square};
    square.transpose_b = true;
    square.src = square.dst = type;
    cases.push_back(product(square, "square"));
    cases.back().sets_the_rate = true;
    MatmulShape forward{sizes.rows, sizes.hidden, sizes.hidden};
    forward.transpose_b = true;
    forward.residual = true;
    forward.src = forward.dst = type;
    cases.push_back(product(forward, "residual"));
    MatmulShape input{sizes.rows, sizes.hidden, 2 * sizes.ffn};
    input.src = input.dst = type;
    cases.push_back(product(input, "input_gradient"));
    MatmulShape weight{2 * sizes.ffn, sizes.hidden, sizes.rows};
    weight.transpose_a = true;
    weight.accumulate = true;
    weight.src = type;
    cases.push_back(product(weight, "weight_gradient"));
}

/// Two products forward, five backward, over the half of the pairs that the causal mask leaves.
double attention_operations(AttentionShape const& s, int products) {
    double const pairs =
        0.5 * static_cast<double>(s.sequence_length) * static_cast<double>(s.sequence_length + 1);
    return 2.0 * products * pairs * static_cast<double>(s.sequences * s.query_heads * s.head_size);
}

void add_attention(std::vector<RateCase>& cases, AttentionShape const& s) {
    RateCase forward{attention_case(s)};
    forward.bytes = moved_bytes(forward.test);
    forward.operations = attention_operations(s, 2);
    cases.push_back(forward);

    // Any numbers do for what the forward pass would give: no time depends on them.
    RateCase backward = forward;
    Case& test = backward.test;
    test.shape.kind = OperationKind::attention_backward;
    test.name = "attention_backward" + forward.test.name.substr(9);
    Operand const& qkv = forward.test.operands[AttentionOperand::qkv];
    Operand o = forward.test.operands[AttentionOperand::o];
    Operand lse = forward.test.operands[AttentionOperand::lse];
    o.role = lse.role = Role::input;
    o.fill = noise(1);
    lse.fill = noise(2, 1, 8);
    test.operands = {qkv, o, lse, o, {qkv.storage, qkv.count, Role::output, constant(0)}};
    backward.bytes = moved_bytes(test);
    backward.operations = attention_operations(s, 5);
    cases.push_back(backward);
}

void add_rows(std::vector<Case>& cases, Sizes const& sizes, Element type) {
    add_rms_norm(cases, {sizes.rows, sizes.hidden}, type);
    add_swiglu(cases, {sizes.rows, sizes.ffn}, type);
    add_embedding(cases, {sizes.rows, sizes.hidden}, type, sizes.vocabulary);
    add_cross_entropy(cases, {sizes.rows / 4, sizes.vocabulary}, type);
    cases.push_back(column_sums_case({sizes.rows, sizes.hidden}, type));
    RotaryShape rotary{sizes.rows, sizes.sequence, sizes.heads, sizes.heads / 4, 128};
    rotary.type = type;
    cases.push_back(rotary_case(rotary, "forward"));
}

} // namespace

std::vector<RateCase> rate_cases(bool small) {
    Sizes const& sizes = small ? little : large;
    std::vector<RateCase> result;
    for (Element const type : {Element::bfloat16, Element::float32}) {
        add_products(result, sizes, type);
        for (std::int64_t const head_size : {64, 96, 128}) {
            AttentionShape attention{sizes.rows / sizes.sequence,
                                     sizes.sequence,
                                     sizes.heads,
                                     sizes.heads / 4,
                                     head_size,
                                     type};
            if (type == Element::float32) // no tensor cores
                attention.sequences = 1;
            add_attention(result, attention);
        }
    }
    std::vector<Case> moving;
    for (Element const type : {Element::bfloat16, Element::float32})
        add_rows(moving, sizes, type);
    add_vectors(moving, sizes.elements);
    for (Case& test : moving)
        if (!test.name.ends_with("in_place")) // moves what the others do
            result.push_back(by_bytes(std::move(test)));
    return result;
}

} // namespace evener::kernels::test
