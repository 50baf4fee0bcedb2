// SPDX-License-Identifier: Apache-2.0

// What holds for every file: a licence line, a guard, no place that exists on
// one machine only.

#include "support/paths.hpp"

#include "arrows.hpp"
#include <gtest/gtest.h>

#include <regex>

namespace evener::structure {
namespace {

FolderRules rules() {
    return read_rules(read_text(support::source_root() / "README.md"));
}

TEST(Tree, EverySourceFileStartsWithItsLicence) {
    std::filesystem::path const root = support::source_root();
    for (char const* folder : {"app", "src", "kernels", "io", "checkpoints", "tests"})
        for (auto const& path : sources_under(root / folder))
            EXPECT_TRUE(read_text(path).starts_with("// SPDX-License-Identifier: Apache-2.0\n"))
                << path;
}

TEST(Tree, EveryHeaderIsGuardedByPragmaOnce) {
    std::filesystem::path const root = support::source_root();
    for (char const* folder : {"app", "src", "kernels", "io", "checkpoints", "tests"})
        for (auto const& path : sources_under(root / folder))
            if (path.extension() == ".hpp" || path.extension() == ".cuh") {
                EXPECT_NE(read_text(path).find("\n#pragma once\n"), std::string::npos) << path;
            }
}

// So that a header that needs another one before it does not build.
TEST(Tree, EverySourceIncludesItsOwnHeaderFirst) {
    std::regex const include{R"(#include ["<]([^">]*)[">])"};
    std::filesystem::path const root = support::source_root();
    int seen = 0;
    for (char const* folder : {"app", "src", "kernels", "io", "checkpoints", "tests"})
        for (auto const& path : sources_under(root / folder)) {
            auto header = path;
            header.replace_extension(".hpp");
            if (path.extension() != ".cpp" || !std::filesystem::exists(header))
                continue;
            std::string const text = read_text(path);
            std::smatch first;
            ASSERT_TRUE(std::regex_search(text, first, include)) << path;
            EXPECT_TRUE(std::filesystem::path{first[1].str()}.filename() == header.filename())
                << path << " includes " << first[1] << " first";
            ++seen;
        }
    EXPECT_GT(seen, 100);
}

TEST(Tree, EveryFolderOfTheTableHasAPageOfItsOwn) {
    for (auto const& [name, rule] : rules())
        EXPECT_TRUE(std::filesystem::exists(support::source_root() / rule.path / "README.md"))
            << rule.path;
}

TEST(Tree, TheTableNamesEveryTopFolder) {
    std::string const readme = read_text(support::source_root() / "README.md");
    for (char const* folder :
         {"app", "kernels", "io", "checkpoints", "inputs", "slurm", "scripts", "tests", "src/core"})
        EXPECT_TRUE(
            std::regex_search(readme, std::regex{"\\| `" + std::string{folder} + "/?` \\|"}))
            << folder;
}

// An absolute path of somebody's home or of a temporary folder works on one machine only.
TEST(Tree, NoSourceNamesAPlaceOfOneMachine) {
    std::regex const place{R"((^|["'\s=(])/(home|root|work|scratch)/)"};
    std::filesystem::path const root = support::source_root();
    for (char const* folder : {"app", "src", "kernels", "io", "checkpoints", "tests"})
        for (auto const& path : sources_under(root / folder))
            EXPECT_FALSE(std::regex_search(read_text(path), place)) << path;
}

} // namespace
} // namespace evener::structure
