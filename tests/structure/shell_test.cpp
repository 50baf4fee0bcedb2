// SPDX-License-Identifier: Apache-2.0

// Every shell script of the tree: shellcheck has nothing to say, and all begin alike.

#include "support/paths.hpp"
#include "support/process.hpp"

#include "arrows.hpp"
#include <gtest/gtest.h>

#include <fstream>

namespace evener::structure {
namespace {

/// Files with a shell's first line, or with a line that names their shell to shellcheck.
std::vector<std::filesystem::path> scripts() {
    std::vector<std::filesystem::path> found;
    for (char const* folder :
         {"app", "src", "kernels", "io", "checkpoints", "inputs", "slurm", "scripts", "tests"})
        for (auto const& entry :
             std::filesystem::recursive_directory_iterator{support::source_root() / folder}) {
            if (!entry.is_regular_file())
                continue;
            std::ifstream file{entry.path()};
            std::string first;
            std::getline(file, first);
            bool const names_shell =
                first.starts_with("#!") && (first.ends_with("/sh") || first.ends_with("bash"));
            if (names_shell || first.starts_with("# shellcheck shell="))
                found.push_back(entry.path());
        }
    return found;
}

TEST(Shell, ShellcheckHasNothingToSay) {
    if (support::run_process({"shellcheck", "--version"}).exit_code != 0)
        GTEST_SKIP() << "shellcheck is not installed (Debian's package shellcheck)";
    std::vector<std::string> command{"shellcheck", "--external-sources", "--source-path=SCRIPTDIR"};
    for (auto const& script : scripts())
        command.push_back(script.string());
    ASSERT_GT(command.size(), 20u);
    auto const result = support::run_process(command);
    EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
}

TEST(Shell, EveryScriptStopsAtItsFirstErrorAndNamesItsLicence) {
    for (auto const& script : scripts()) {
        std::string const text = read_text(script);
        EXPECT_NE(text.find("# SPDX-License-Identifier: Apache-2.0\n"), std::string::npos)
            << script;
        if (text.starts_with("#!")) {
            EXPECT_NE(text.find("\nset -euo pipefail\n"), std::string::npos) << script;
        }
    }
}

} // namespace
} // namespace evener::structure
