// SPDX-License-Identifier: Apache-2.0
// Misspelt names: every key with one letter missing, wrong, doubled or swapped is an error that
// suggests the right key.

#include "job/schema.hpp"
#include "job/suggest.hpp"

#include "parse_support.hpp"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace evener::job {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> misspellings(std::string const& name) {
    std::vector<std::string> result;
    for (std::size_t i = 0; i < name.size(); ++i) {
        std::string deleted = name, replaced = name, doubled = name, swapped = name;
        deleted.erase(i, 1);
        replaced[i] = name[i] == 'q' ? 'z' : 'q';
        doubled.insert(i, 1, name[i]);
        if (i + 1 < name.size())
            std::swap(swapped[i], swapped[i + 1]);
        for (std::string const& wrong : {deleted, replaced, doubled, swapped})
            if (wrong != name && !wrong.empty())
                result.push_back(wrong);
    }
    return result;
}

template <class Owner>
std::set<std::string_view> names_of(std::span<Key<Owner> const> keys) {
    std::set<std::string_view> result;
    for (Key<Owner> const& key : keys)
        result.insert(key.name);
    return result;
}

TEST(JobNames, EveryKeyMisspeltByOneLetterSuggestsTheKey) {
    int cases = 0;
    for (Table const& table : tables()) {
        auto const valid = names_of(table.keys);
        for (Key<Job> const& key : table.keys)
            for (std::string const& wrong : misspellings(std::string{key.name})) {
                if (valid.contains(wrong))
                    continue;
                // A table apart: the one in the minimal text may be open already.
                std::string const text = fmt::format("[{}]\n{} = 1\n", table.name, wrong);
                std::string const place = fmt::format("job.toml:2:1: error: unknown key '{}' in "
                                                      "[{}]; did you mean ",
                                                      wrong, table.name);
                EXPECT_THAT(
                    messages_of(text),
                    Contains(AllOf(HasSubstr(place), HasSubstr(fmt::format("'{}'", key.name)))))
                    << text;
                ++cases;
            }
    }
    EXPECT_GT(cases, 1500);
}

TEST(JobNames, EveryGroupKeyMisspeltByOneLetterSuggestsTheKey) {
    auto const valid = names_of(group_keys());
    for (Key<Group> const& key : group_keys())
        for (std::string const& wrong : misspellings(std::string{key.name})) {
            if (valid.contains(wrong))
                continue;
            std::string const text =
                minimal_text +
                fmt::format("[[plan.groups]]\nranks=[0]\nlayers=14\n{} = 1\n", wrong);
            std::string const place =
                fmt::format("job.toml:10:1: error: unknown key '{}' in [[plan.groups]]", wrong);
            EXPECT_THAT(
                messages_of(text),
                ElementsAre(AllOf(HasSubstr(place), HasSubstr(fmt::format("'{}'", key.name)))))
                << text;
        }
}

TEST(JobNames, EveryOffloadKeyMisspeltByOneLetterSuggestsTheKey) {
    for (Key<Offload> const& key : offload_keys())
        for (std::string const& wrong : misspellings(std::string{key.name})) {
            std::string const expected = fmt::format("unknown key '{}' in [plan.offload]; did you "
                                                     "mean '{}'?",
                                                     wrong, key.name);
            EXPECT_THAT(messages_of(minimal_text + fmt::format("[plan.offload]\n{} = 1\n", wrong)),
                        ElementsAre("job.toml:8:1: error: " + expected));
            EXPECT_THAT(
                messages_of(minimal_text, {fmt::format("plan.offload.{}=true", wrong)}),
                ElementsAre(fmt::format("--set plan.offload.{}: error: {}", wrong, expected)));
        }
}

TEST(JobNames, EveryTableMisspeltByOneLetterSuggestsTheTable) {
    for (Table const& table : tables())
        for (std::string const& wrong : misspellings(std::string{table.name}))
            EXPECT_THAT(messages_of(fmt::format("[{}]\n", wrong)),
                        Contains(HasSubstr(fmt::format("unknown table '{}'; did you mean '{}'?",
                                                       wrong, table.name))));
}

TEST(JobNames, NamesOfOtherProgramsSuggestOurs) {
    EXPECT_THAT(messages_of(minimal_text + "[optimizer]\nlr = 1\n"),
                ElementsAre("job.toml:8:1: error: unknown key 'lr' in [optimizer]; did you mean "
                            "'learning_rate'?"));
    EXPECT_THAT(
        messages_of(minimal_text + "num_hidden_layers = 1\n"),
        ElementsAre("job.toml:7:1: error: unknown key 'num_hidden_layers' in [train]; did you "
                    "mean 'model.layers'?"));
}

TEST(JobNames, AKeyOfAnotherTableSuggestsThatTable) {
    EXPECT_THAT(messages_of(minimal_text + "seed = 1\n"),
                ElementsAre("job.toml:7:1: error: unknown key 'seed' in [train]; did you mean "
                            "'run.seed'?"));
    EXPECT_THAT(
        messages_of("seed = 1\n" + minimal_text),
        ElementsAre("job.toml:1:1: error: unknown key 'seed' in no table (keys stand below a "
                    "[table]); did you mean 'run.seed'?"));
}

TEST(JobNames, NothingNearGivesNoSuggestion) {
    EXPECT_THAT(messages_of(minimal_text + "xylophone = 1\n"),
                ElementsAre("job.toml:7:1: error: unknown key 'xylophone' in [train]"));
}

TEST(JobNames, AMisspeltNeededKeyIsReportedOnce) {
    EXPECT_THAT(
        messages_of("[model]\npreset = \"tiny\"\n[data]\ntrain = [\"a\"]\n[train]\nstepps = 3\n"),
        ElementsAre("job.toml:6:1: error: unknown key 'stepps' in [train]; did you mean "
                    "'steps'?"));
    EXPECT_THAT(
        messages_of("[modle]\npreset = \"tiny\"\n[data]\ntrain = [\"a\"]\n[train]\nsteps = 3\n"),
        ElementsAre("job.toml:1:2: error: unknown table 'modle'; did you mean 'model'?"));
}

TEST(JobNames, EditDistanceCountsSwapsAsOne) {
    EXPECT_EQ(edit_distance("", ""), 0u);
    EXPECT_EQ(edit_distance("", "abc"), 3u);
    EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
    EXPECT_EQ(edit_distance("heads", "haeds"), 1u);
    EXPECT_EQ(edit_distance("ca", "abc"), 3u); // no edit inside a swapped pair
}

} // namespace
} // namespace evener::job
