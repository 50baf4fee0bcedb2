// SPDX-License-Identifier: Apache-2.0

#include "compare.hpp"

#include "tolerance.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>

namespace evener::kernels::test {
namespace {

/// Rounding of an operand: that of its own type; float32 statistics of bfloat16 operations are sums
/// of exact terms.
double allowed(Case const& test, Operand const& operand) {
    bool const narrow = operand.storage == Storage::bfloat16;
    Element const type = narrow ? Element::bfloat16 : Element::float32;
    return tolerance(test.shape.kind, type, test.k);
}

std::string describe(Case const& test, std::size_t operand, std::size_t element, double expected,
                     double actual, double limit) {
    std::ostringstream text;
    text.precision(9);
    text << test.name << ", operand " << operand << ", element " << element << ": " << actual
         << ", reference " << expected << ", allowed difference " << limit;
    return text.str();
}

void compare_operand(Case const& test, std::size_t o, std::vector<double> const& expected,
                     std::vector<double> const& actual, Comparison& result) {
    Operand const& operand = test.operands[o];
    double largest = 0;
    for (double const value : expected)
        largest = std::max(largest, std::abs(value));
    double const limit = operand.role == Role::input ? 0 : allowed(test, operand) * largest;
    for (std::size_t i = 0; i < expected.size(); ++i) {
        double const difference = std::abs(expected[i] - actual[i]);
        if (limit > 0)
            result.worst = std::max(result.worst, difference / limit);
        if (!(difference <= limit) && result.complaint.empty()) // NaN is a difference
            result.complaint = describe(test, o, i, expected[i], actual[i], limit);
    }
}

} // namespace

Comparison compare(Case const& test, std::vector<std::vector<double>> const& expected,
                   std::vector<std::vector<double>> const& actual) {
    Comparison result;
    for (std::size_t o = 0; o < expected.size(); ++o) {
        if (expected[o].size() != actual[o].size())
            result.complaint = test.name + ", operand " + std::to_string(o) + ": " +
                               std::to_string(actual[o].size()) + " elements, reference " +
                               std::to_string(expected[o].size());
        else
            compare_operand(test, o, expected[o], actual[o], result);
    }
    return result;
}

bool lacks_products(OpenTable const& open, Case const& test) {
    if (open.table().supports(open.device(), Element::bfloat16) ||
        test.shape.kind != OperationKind::matmul)
        return false;
    MatmulShape const& s = test.shape.matmul;
    return s.src == Element::bfloat16 && s.m > 0 && s.n > 0 && s.k > 0;
}

bool depends_on_addresses(OperationKind kind) {
    return kind == OperationKind::matmul || kind == OperationKind::attention ||
           kind == OperationKind::attention_backward;
}

Comparison compare_with_reference(OpenTable const& open, OpenTable const& reference,
                                  Case const& test) {
    if (lacks_products(open, test)) {
        if (refusal(open, test.shape).find("bfloat16") != std::string::npos)
            return {};
        return {0, test.name + ": not refused for lack of bfloat16 products"};
    }
    auto const expected = run(reference, test);
    Comparison result;
    for (Addresses const addresses : {Addresses::aligned, Addresses::odd}) {
        auto const actual = run(open, test, addresses);
        Comparison const found = compare(test, expected, actual);
        result.worst = std::max(result.worst, found.worst);
        if (result.complaint.empty())
            result.complaint = found.complaint;
        if (result.complaint.empty() && actual != run(open, test, addresses))
            result.complaint = test.name + ": a second run gives other bits";
    }
    return result;
}

} // namespace evener::kernels::test
