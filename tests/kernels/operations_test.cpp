// SPDX-License-Identifier: Apache-2.0

// A plug-in against the reference, element by element.

#include "kernels/reference/reference.hpp"

#include "cases.hpp"
#include "compare.hpp"
#include <gtest/gtest.h>

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

    static inline std::unique_ptr<OpenTable> open_;
};

TEST_P(Plugin, AgreesWithReference) {
    Case const& test = GetParam();
    if (lacks_products(*open_, test)) {
        EXPECT_NE(refusal(*open_, test.shape).find("bfloat16"), std::string::npos);
        return;
    }
    OpenTable const reference{reference::reference_table(), 1};
    auto const expected = run(reference, test);
    for (Addresses const addresses : {Addresses::aligned, Addresses::odd}) {
        auto const actual = run(*open_, test, addresses);
        ASSERT_EQ(compare(test, expected, actual).complaint, "");
    }
}

TEST_P(Plugin, RepeatsToTheBit) {
    Case const& test = GetParam();
    if (lacks_products(*open_, test))
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
