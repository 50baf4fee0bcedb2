// SPDX-License-Identifier: Apache-2.0

// The arrows of this tree, and planted ones that must be found.

#include "core/error.hpp"
#include "support/message.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include "arrows.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace evener::structure {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::string const small_readme = "| folder | role | may use |\n"
                                 "|---|---|---|\n"
                                 "| `app/` | the program | all |\n"
                                 "| `src/core` | words | nothing |\n"
                                 "| `src/comm` | messages | core |\n"
                                 "| `kernels/` | numbers | nothing |\n"
                                 "| `inputs/` | jobs | |\n";

FolderRules rules_of_this_tree() {
    return read_rules(read_text(support::source_root() / "README.md"));
}

std::string links_of_this_build() {
    return read_text(support::build_root() / "link_lists.txt");
}

TEST(Rules, AreReadFromTheTable) {
    FolderRules const rules = read_rules(small_readme);
    ASSERT_EQ(rules.size(), 4u); // inputs/ says nothing
    EXPECT_TRUE(rules.at("app").may_use_all);
    EXPECT_THAT(rules.at("core").may_use, IsEmpty());
    EXPECT_THAT(rules.at("comm").may_use, ElementsAre("core"));
    EXPECT_EQ(rules.at("comm").path, "src/comm");
    EXPECT_EQ(rules.at("kernels").path, "kernels");
}

TEST(Rules, ARowThatNamesAnUnknownFolderIsRefused) {
    support::expect_error<core::ConfigError>(
        [] { read_rules("| `src/comm` | messages | core |\n"); },
        "error: the folder table lets 'comm' use 'core', which has no row");
}

TEST(Rules, OfThisTreeCoverEveryFolderWithSourcesAndHaveNoCircle) {
    FolderRules const rules = rules_of_this_tree();
    std::filesystem::path const root = support::source_root();
    std::set<std::string> folders;
    for (auto const& entry : std::filesystem::directory_iterator{root / "src"})
        if (entry.is_directory())
            folders.insert("src/" + entry.path().filename().string());
    for (char const* top : {"app", "kernels", "io", "checkpoints"})
        folders.insert(top);
    for (std::string const& folder : folders)
        EXPECT_TRUE(std::any_of(rules.begin(), rules.end(),
                                [&](auto const& rule) { return rule.second.path == folder; }))
            << folder << " has no row in the folder table of README.md";

    // Take away folders that use nothing left; what stays is a circle.
    FolderRules left = rules;
    for (std::size_t before = left.size() + 1; left.size() < before;) {
        before = left.size();
        std::erase_if(left, [&](auto const& entry) {
            auto const& used = entry.second.may_use;
            return std::none_of(used.begin(), used.end(),
                                [&](auto const& name) { return left.contains(name); });
        });
    }
    EXPECT_THAT(left, IsEmpty());
}

TEST(Links, OfThisTreeFollowTheTable) {
    FolderRules const rules = rules_of_this_tree();
    auto const arrows = arrows_of_links(links_of_this_build(), rules);
    EXPECT_GT(arrows.size(), 5u); // else the lists were not read
    EXPECT_THAT(forbidden(arrows, rules), IsEmpty());
}

TEST(Links, APlantedLinkIsFoundWhateverItsSpelling) {
    FolderRules const rules = rules_of_this_tree();
    for (char const* spelling :
         {"evener_comm", "Evener::comm", "fmt::fmt;$<LINK_ONLY:evener_comm>"}) {
        auto const links = links_of_this_build() + "evener_core|src/core|" + spelling + "\n";
        EXPECT_THAT(forbidden(arrows_of_links(links + "evener_comm|src/comm|\n", rules), rules),
                    ElementsAre("'core' may not use 'comm': target evener_core links evener_comm"));
    }
}

TEST(Links, TargetsInsideAFolderAreItsOwn) {
    FolderRules const rules = read_rules(small_readme);
    char const* const links =
        "evener_kernels|kernels|\n"
        "evener_kernels_host|kernels/host/level|evener_kernels;Kokkos::kokkos\n"
        "evener_core|src/core|\n"
        "evener_comm|src/comm|evener_kernels_host\n"
        "evener|app|evener_kernels_host;evener_comm\n"
        "test_comm|tests/comm|evener_kernels\n";
    EXPECT_THAT(forbidden(arrows_of_links(links, rules), rules),
                ElementsAre("'comm' may not use 'kernels': target evener_comm links "
                            "evener_kernels_host"));
}

TEST(Includes, OfThisTreeFollowTheTable) {
    FolderRules const rules = rules_of_this_tree();
    auto const arrows = arrows_of_includes(support::source_root(), rules);
    EXPECT_GT(arrows.size(), 20u);
    EXPECT_THAT(forbidden(arrows, rules), IsEmpty());
}

TEST(Includes, APlantedIncludeIsFoundWithFileAndLine) {
    support::TemporaryFolder const root{"arrows"};
    std::filesystem::create_directories(root / "src/core");
    std::filesystem::create_directories(root / "src/comm");
    std::ofstream{root / "src/core/a.hpp"} << "#include <vector>\n  # include \"comm/b.hpp\"\n";
    std::ofstream{root / "src/comm/b.hpp"} << "#include \"core/a.hpp\"\n#include \"comm/c.hpp\"\n";
    FolderRules const rules = read_rules(small_readme);
    EXPECT_THAT(forbidden(arrows_of_includes(root.path(), rules), rules),
                ElementsAre("'core' may not use 'comm': src/core/a.hpp:2:   # include "
                            "\"comm/b.hpp\""));
}

} // namespace
} // namespace evener::structure
