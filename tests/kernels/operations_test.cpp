// SPDX-License-Identifier: Apache-2.0

// A plug-in against the reference, element by element.

#include "kernels/reference/reference.hpp"

#include "cases.hpp"
#include "tolerance.hpp"
#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace evener::kernels::test {
namespace {

/// Opened once: a host device starts once per process.
class Plugin : public testing::TestWithParam<Case> {
  public:
    static void SetUpTestSuite() {
        if (plugin_table() != nullptr)
            open_ = std::make_unique<OpenTable>(plugin_table(), test_threads());
    }
    static void TearDownTestSuite() { open_.reset(); }

    void SetUp() override {
        if (open_ == nullptr)
            GTEST_SKIP() << why_unusable();
    }

    /// bfloat16 products that the device lacks are refused; nothing else is.
    static bool unsupported(Case const& test) {
        if (open_->table().supports(open_->device(), Element::bfloat16))
            return false;
        if (test.shape.kind != OperationKind::matmul)
            return false;
        MatmulShape const& s = test.shape.matmul;
        return s.src == Element::bfloat16 && s.m > 0 && s.n > 0 && s.k > 0;
    }

    static inline std::unique_ptr<OpenTable> open_;
};

/// Matrix units ask for aligned operands: others may take another algorithm. All else has one order.
bool depends_on_addresses(OperationKind kind) {
    return kind == OperationKind::matmul || kind == OperationKind::attention ||
           kind == OperationKind::attention_backward;
}

/// Rounding of an operand: that of its own type, but float32 statistics of bfloat16 operations that
/// are sums of rounded values are judged by the case's type.
double allowed(Case const& test, Operand const& operand) {
    bool const narrow = operand.storage == Storage::bfloat16;
    Element const type = narrow ? Element::bfloat16 : Element::float32;
    return tolerance(test.shape.kind, type, test.k);
}

void expect_close(Case const& test, std::size_t o, std::vector<double> const& expected,
                  std::vector<double> const& actual) {
    Operand const& operand = test.operands[o];
    double largest = 0;
    for (double const value : expected)
        largest = std::max(largest, std::abs(value));
    double const limit = operand.role == Role::input ? 0 : allowed(test, operand) * largest;
    ASSERT_EQ(expected.size(), actual.size());
    for (std::size_t i = 0; i < expected.size(); ++i)
        ASSERT_TRUE(std::abs(expected[i] - actual[i]) <= limit)
            << test.name << ", operand " << o << ", element " << i << ": " << actual[i]
            << ", reference " << expected[i] << ", allowed difference " << limit;
}

TEST_P(Plugin, AgreesWithReference) {
    Case const& test = GetParam();
    if (unsupported(test)) {
        EXPECT_NE(refusal(*open_, test.shape).find("bfloat16"), std::string::npos);
        return;
    }
    OpenTable const reference{reference::reference_table(), 1};
    auto const expected = run(reference, test);
    for (Addresses const addresses : {Addresses::aligned, Addresses::odd}) {
        auto const actual = run(*open_, test, addresses);
        for (std::size_t o = 0; o < expected.size(); ++o)
            expect_close(test, o, expected[o], actual[o]);
    }
}

TEST_P(Plugin, RepeatsToTheBit) {
    Case const& test = GetParam();
    if (unsupported(test))
        return;
    auto const once = run(*open_, test);
    EXPECT_EQ(once, run(*open_, test));
    if (!depends_on_addresses(test.shape.kind)) {
        EXPECT_EQ(once, run(*open_, test, Addresses::odd));
    }
}

INSTANTIATE_TEST_SUITE_P(Operations, Plugin, testing::ValuesIn(all_cases()),
                         [](auto const& info) { return info.param.name; });

TEST(Cases, CoverEveryOperation) {
    std::set<OperationKind> covered;
    for (Case const& test : all_cases())
        covered.insert(test.shape.kind);
    EXPECT_EQ(covered.size(), static_cast<std::size_t>(OperationKind::count));
}

} // namespace
} // namespace evener::kernels::test
