// SPDX-License-Identifier: Apache-2.0
// Damaged job files and settings give a ConfigError or a job, and nothing else; a job that comes
// out prints and parses back.

#include "job/print.hpp"
#include "support/sizes.hpp"

#include "parse_support.hpp"
#include "random_job.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>

namespace evener::job {
namespace {

using Engine = std::mt19937_64;

std::size_t below(Engine& engine, std::size_t limit) {
    return limit == 0 ? 0 : engine() % limit;
}

constexpr std::array<std::string_view, 36> pieces{"\"",
                                                  "'",
                                                  "\"\"\"",
                                                  "'''",
                                                  "[",
                                                  "]",
                                                  "[[",
                                                  "]]",
                                                  "{",
                                                  "}",
                                                  "=",
                                                  ".",
                                                  ",",
                                                  "#",
                                                  "\n",
                                                  "\r\n",
                                                  "\t",
                                                  "-",
                                                  "+",
                                                  "_",
                                                  "0x",
                                                  "1e999",
                                                  "nan",
                                                  "-inf",
                                                  "9223372036854775807",
                                                  "9223372036854775808",
                                                  "-9223372036854775808",
                                                  "true",
                                                  "1979-05-27T07:32:00Z",
                                                  "\\u0000",
                                                  "\\UFFFFFFFF",
                                                  "\xef\xbb\xbf",
                                                  "\xff",
                                                  "\xc3\xa9",
                                                  "[plan]\n",
                                                  "\"0-999999\""};

std::string mutate(Engine& engine, std::string text) {
    for (std::size_t edits = 1 + below(engine, 4); edits > 0; --edits) {
        std::size_t const at = below(engine, text.size() + 1);
        std::size_t const length = std::min(text.size() - at, below(engine, 40));
        std::size_t const to = below(engine, text.size() + 1);
        switch (engine() % 7) {
        case 0: // one byte changed
            if (at < text.size())
                text[at] = static_cast<char>(engine());
            break;
        case 1:
            text.insert(at, 1, static_cast<char>(32 + engine() % 95));
            break;
        case 2:
            text.erase(at, length);
            break;
        case 3:
            text.insert(to, text.substr(at, length));
            break;
        case 4:
            text.insert(at, pieces[below(engine, pieces.size())]);
            break;
        case 5: // cut short
            if (engine() % 4 == 0)
                text.resize(at);
            break;
        default: // another number
            if (std::size_t const digit = text.find_first_of("0123456789", at);
                digit != std::string::npos)
                text.replace(
                    digit, 1,
                    std::to_string(static_cast<std::int64_t>(engine()) >> (engine() % 64)));
        }
    }
    return text;
}

/// A job file of a few lines, one of all keys, or the reference.
std::string original(Engine& engine) {
    switch (engine() % 4) {
    case 0:
        return minimal_text + "[[plan.groups]]\nranks = [0, \"2-4\"]\nlayers = 5\n"
                              "[[plan.groups]]\nranks = [1]\nlayers = 9\nshares = [1.5]\n";
    case 1:
        return reference_text();
    default:
        return print_job(random_job(engine()));
    }
}

/// True when a job came out; another exception than ConfigError fails the test.
bool survives(std::string const& text, std::vector<std::string> const& settings) {
    try {
        Job const job = parse_job_text(text, "fuzzed.toml", settings);
        EXPECT_EQ(parse_job_text(print_job(job), "again.toml"), job) << text;
        return true;
    } catch (core::ConfigError const& error) {
        EXPECT_FALSE(error.findings().empty());
        return false;
    }
}

TEST(JobFuzz, DamagedFilesGiveErrorsOrJobs) {
    std::size_t jobs = 0;
    auto const seeds = support::seeds("JobFuzz.files", 10000);
    for (std::uint64_t const seed : seeds) {
        Engine engine{seed};
        SCOPED_TRACE(seed);
        jobs += survives(mutate(engine, original(engine)), {}) ? 1 : 0;
        if (HasFailure())
            break;
    }
    if (seeds.size() >= 100) { // both ways out are taken
        EXPECT_GT(jobs, seeds.size() / 20);
        EXPECT_LT(jobs, seeds.size() - seeds.size() / 20);
    }
}

TEST(JobFuzz, DamagedSettingsGiveErrorsOrJobs) {
    std::vector<std::string> const settings{
        "train.steps=100",
        "data.train=[\"a\", 'b']",
        "run.name=first",
        "optimizer.learning_rate=1e-3",
        "plan.groups=[{ranks = [0, \"1-2\"], layers = 14, shares = [1, 2, 0]}]",
        "model.preset=tiny"};
    for (std::uint64_t const seed : support::seeds("JobFuzz.settings", 10000)) {
        Engine engine{seed};
        SCOPED_TRACE(seed);
        survives(minimal_text, {mutate(engine, settings[below(engine, settings.size())])});
        if (HasFailure())
            break;
    }
}

TEST(JobFuzz, DeepNestingIsAnErrorOrAJob) {
    for (std::size_t const depth : {10u, 100u, 1000u, 100000u}) {
        std::string dotted, lists = "[run]\nname = ";
        for (std::size_t i = 0; i < depth; ++i) {
            dotted += "a.";
            lists += '[';
        }
        EXPECT_FALSE(survives(dotted + "a = 1\n", {}));
        EXPECT_FALSE(survives(lists + "\n", {}));
        EXPECT_FALSE(survives("[" + dotted + "a]\n", {}));
        EXPECT_FALSE(survives(minimal_text, {"plan.groups=[{" + dotted + "a = 1}]"}));
    }
}

} // namespace
} // namespace evener::job
