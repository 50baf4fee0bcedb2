// SPDX-License-Identifier: Apache-2.0
// Every key with a value of the wrong type, and just inside and outside of its bounds.

#include "job/schema.hpp"

#include "parse_support.hpp"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

namespace evener::job {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

struct Sample {
    std::string_view toml;
    std::string_view shown;
};

// One of each TOML type.
constexpr std::array samples{
    Sample{"true", "true"},
    Sample{"7", "7"},
    Sample{"2.5", "2.5"},
    Sample{"\"odd\"", "\"odd\""},
    Sample{"1979-05-27", "a date or time"},
    Sample{"{ a = 1 }", "a table"},
    Sample{"[[1]]", "a list"},
};

/// Whether a key of this type takes sample `i`.
bool takes(Slot const& slot, std::size_t i) {
    bool const is_text = std::holds_alternative<std::string*>(slot) ||
                         std::holds_alternative<std::vector<std::string>*>(slot);
    bool const is_whole =
        std::holds_alternative<std::int64_t*>(slot) || std::holds_alternative<std::uint64_t*>(slot);
    bool const is_real = std::holds_alternative<double*>(slot);
    return (i == 0 && std::holds_alternative<bool*>(slot)) || (i == 1 && (is_whole || is_real)) ||
           (i == 2 && is_real) || (i == 3 && is_text) || (i == 5 && is_table(slot));
}

TEST(JobValues, EveryKeyRefusesEveryOtherType) {
    int refused = 0;
    for (Table const& table : tables())
        for (Key<Job> const& key : table.keys) {
            Job job;
            Slot const slot = key.slot(job);
            for (std::size_t i = 0; i < samples.size(); ++i) {
                std::string const text =
                    fmt::format("[{}]\n{} = {}\n", table.name, key.name, samples[i].toml);
                std::string const place = fmt::format("job.toml:2:{}: error: '{}.{}",
                                                      key.name.size() + 4, table.name, key.name);
                bool const in_list = i == 6 && text.find("[[1]]") != std::string::npos &&
                                     (std::holds_alternative<std::vector<std::string>*>(slot) ||
                                      std::holds_alternative<std::vector<std::int64_t>*>(slot) ||
                                      std::holds_alternative<std::vector<Group>*>(slot) ||
                                      std::holds_alternative<std::vector<Chunk>*>(slot));
                if (takes(slot, i))
                    EXPECT_THAT(messages_of(text),
                                Not(Contains(AllOf(HasSubstr(place), HasSubstr("; use a list")))));
                else if (in_list)
                    EXPECT_THAT(messages_of(text),
                                Contains(HasSubstr(fmt::format("'{}.{}[0]' is a list; use ",
                                                               table.name, key.name))));
                else
                    EXPECT_THAT(messages_of(text),
                                Contains(StartsWith(
                                    fmt::format("{}' is {}; use ", place, samples[i].shown))))
                        << text;
                refused += takes(slot, i) ? 0 : 1;
            }
        }
    EXPECT_GT(refused, 300);
}

TEST(JobValues, EveryGroupKeyRefusesATruthValue) {
    for (Key<Group> const& key : group_keys())
        EXPECT_THAT(
            messages_of(minimal_text + fmt::format("[[plan.groups]]\n{} = true\n", key.name)),
            Contains(
                StartsWith(fmt::format("job.toml:8:{}: error: 'plan.groups[0].{}' is true; use ",
                                       key.name.size() + 4, key.name))));
}

/// Messages about the key itself, "'table.key' is VALUE; use ...", or about the one element of its
/// list.
std::vector<std::string> bound_messages(Table const& table, Key<Job> const& key,
                                        std::string const& value) {
    std::vector<std::string> result;
    Job job;
    bool const is_list = std::holds_alternative<std::vector<std::int64_t>*>(key.slot(job));
    std::string const text =
        fmt::format("[{}]\n{} = {}\n", table.name, key.name, is_list ? "[" + value + "]" : value);
    for (std::string const& message : messages_of(text))
        if (message.find(fmt::format("'{}.{}{}' is {}; use a ", table.name, key.name,
                                     is_list ? "[0]" : "", value)) != std::string::npos)
            result.push_back(message);
    return result;
}

TEST(JobValues, BoundsAreTheLastValuesAllowed) {
    int cases = 0;
    for (Table const& table : tables())
        for (Key<Job> const& key : table.keys) {
            if (auto const* whole = std::get_if<IntegerBounds>(&key.bounds)) {
                EXPECT_THAT(bound_messages(table, key, fmt::format("{}", whole->lowest)),
                            IsEmpty());
                EXPECT_THAT(bound_messages(table, key, fmt::format("{}", whole->highest)),
                            IsEmpty());
                EXPECT_THAT(bound_messages(table, key, fmt::format("{}", whole->lowest - 1)),
                            ElementsAre(HasSubstr(fmt::format("from {} ", whole->lowest))));
                if (whole->highest < std::numeric_limits<std::int64_t>::max()) {
                    EXPECT_THAT(bound_messages(table, key, fmt::format("{}", whole->highest + 1)),
                                ElementsAre(HasSubstr(fmt::format("to {}", whole->highest))));
                }
                ++cases;
            }
            if (auto const* real = std::get_if<RealBounds>(&key.bounds)) {
                std::string const below = number_text(std::nextafter(real->lowest, -HUGE_VAL));
                std::string const above = number_text(std::nextafter(real->highest, HUGE_VAL));
                EXPECT_EQ(bound_messages(table, key, number_text(real->lowest)).size(),
                          real->lowest_excluded ? 1u : 0u);
                EXPECT_EQ(bound_messages(table, key, number_text(real->highest)).size(),
                          real->highest_excluded ? 1u : 0u);
                EXPECT_EQ(bound_messages(table, key, below).size(), 1u) << key.name;
                EXPECT_EQ(bound_messages(table, key, above).size(), 1u) << key.name;
                EXPECT_EQ(bound_messages(table, key, "nan").size(), 1u) << key.name;
                EXPECT_EQ(bound_messages(table, key, "inf").size(), 1u) << key.name;
                ++cases;
            }
        }
    EXPECT_GT(cases, 30);
}

TEST(JobValues, EveryChoiceIsReadAndOthersAreListed) {
    for (Table const& table : tables())
        for (Key<Job> const& key : table.keys) {
            Job job;
            Slot const slot = key.slot(job);
            auto const* choice = std::get_if<ChoiceSlot>(&slot);
            if (choice == nullptr)
                continue;
            for (std::size_t i = 0; i < choice->names.size(); ++i) {
                std::string const setting =
                    fmt::format("{}.{}={}", table.name, key.name, choice->names[i]);
                if (setting == "model.preset=none")
                    continue; // leaves the minimal job without a model
                std::vector<std::string> settings{setting};
                if (setting == "plan.schedule=zb-v") // wants its placement
                    settings.insert(settings.end(),
                                    {"plan.chunks_per_group=2", "plan.placement=v"});
                Job parsed = job_with(settings);
                Slot const read = key.slot(parsed);
                EXPECT_EQ(std::get<ChoiceSlot>(read).get(std::get<ChoiceSlot>(read).target), i)
                    << setting;
            }
            for (std::string_view const name : choice->names)
                EXPECT_THAT(messages_of(fmt::format("[{}]\n{} = \"Odd\"\n", table.name, key.name)),
                            Contains(HasSubstr(fmt::format("\"{}\"", name))));
        }
}

TEST(JobValues, ControlCharactersAreRefused) {
    EXPECT_THAT(messages_of(minimal_text + "[run]\nname = \"a\\nb\"\n"),
                ElementsAre("job.toml:8:8: error: 'run.name' is \"a\\u000Ab\" with a control "
                            "character; use printable text"));
}

TEST(JobValues, LongValuesAreShortenedBetweenCharacters) {
    std::string const e_acute = "\xc3\xa9";
    std::string long_text = "x";
    for (int i = 0; i < 40; ++i)
        long_text += e_acute;
    std::string shown = "x";
    for (int i = 0; i < 19; ++i)
        shown += e_acute;
    EXPECT_THAT(messages_of(minimal_text + "[run]\nseed = \"" + long_text + "\"\n"),
                ElementsAre("job.toml:8:8: error: 'run.seed' is \"" + shown +
                            "\"...; use a whole number from 0 on"));
}

} // namespace
} // namespace evener::job
