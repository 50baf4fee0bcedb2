// SPDX-License-Identifier: Apache-2.0
// Every mutant of a random program is rejected by verify with the instruction named, or does the
// same as the program it came from under random delays on every stream.
#include "support/sizes.hpp"

#include "mutants.hpp"
#include "subject.hpp"
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>

namespace evener::schedule {
namespace {

constexpr int delays = 20;

bool contains(std::string const& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

bool names_any(std::vector<Problem> const& problems, std::vector<std::string> const& names) {
    return std::any_of(problems.begin(), problems.end(), [&](Problem const& problem) {
        return std::any_of(names.begin(), names.end(), [&](std::string const& name) {
            return contains(problem.message, name);
        });
    });
}

std::string text_of(Mutant const& mutant, std::vector<Problem> const& problems) {
    std::string text = mutant.what + "\n";
    for (std::size_t k = 0; k < std::min<std::size_t>(problems.size(), 5); ++k)
        text += "  " + problems[k].message + "\n";
    for (program::Program const& program : mutant.set.programs)
        text += to_string(program);
    return text;
}

TEST(Mutants, AreRejectedByNameOrDoTheSame) {
    int named = 0, affected = 0, equivalent = 0, failures = 0;
    auto const seeds = support::seeds("schedule/mutants", 2000);
    for (std::uint64_t const seed : seeds) {
        support::Random random{seed};
        Subject const subject = random_subject(random);
        Mutant const mutant = make_mutant(subject.set, random);
        auto const problems = subject.verify(mutant.set);
        bool right = true;
        if (problems.empty())
            ++((right = subject.same_result(mutant.set, delays)) ? equivalent : failures);
        else if (names_any(problems, mutant.names))
            ++named;
        else
            ++((right = names_any(problems, mutant.affected)) ? affected : failures);
        EXPECT_TRUE(right) << (problems.empty() ? "verify accepts what does something else"
                                                : "the problems do not name the instruction")
                           << ", EVENER_TEST_SEED=" << seed << "\n"
                           << text_of(mutant, problems);
        if (failures > 2)
            break;
    }
    fmt::print("{} mutants: {} rejected (instruction named in {}, a neighbour of it in {}), {} "
               "shown equivalent with {} runs each\n",
               seeds.size(), named + affected, named, affected, equivalent, delays);
    EXPECT_GE(named, static_cast<int>(seeds.size()) / 2);
}

/// A part of verify by the words of its messages.
struct Check {
    std::string_view name;
    std::vector<std::string_view> words;
    int caught = 0; ///< mutants that only this check rejects and that do something else
    int missed = 0; ///< ... that no run showed to do something else

    bool says(Problem const& problem) const {
        return std::any_of(words.begin(), words.end(),
                           [&](std::string_view part) { return contains(problem.message, part); });
    }
};

/// A run that cannot even be set up does something else, too.
bool does_the_same(Subject const& subject, program::ProgramSet const& mutant) {
    try {
        return subject.same_result(mutant, delays);
    } catch (std::exception const&) {
        return false;
    }
}

// The control of the test above: if verify forgot one of its checks, mutants would be accepted that
// do something else, and the runs would show it.
TEST(Mutants, AreSeenByTheRunsWhenACheckIsLeftOut) {
    std::array<Check, 7> checks{{
        {"deadlock", {"deadlock:"}},
        {"order", {"may start before"}},
        {"contents", {"overwrites", "has no content then", "does not end its content"}},
        {"writers", {"finds in"}},
        {"copies", {" moves "}},
        {"buffers", {"has no business", "does not read", "does not write", "does not update"}},
        {"work", {"is missing", "nothing clears", "no such work", "times in the program"}},
    }};
    auto const seeds = support::seeds("schedule/blind", 20000);
    for (std::uint64_t const seed : seeds) {
        support::Random random{seed};
        Subject const subject = random_subject(random);
        Mutant const mutant = make_mutant(subject.set, random);
        auto const problems = subject.verify(mutant.set);
        if (problems.empty())
            continue;
        for (Check& check : checks)
            if (std::all_of(problems.begin(), problems.end(),
                            [&](Problem const& problem) { return check.says(problem); }))
                ++(does_the_same(subject, mutant.set) ? check.missed : check.caught);
    }
    for (Check const& check : checks) {
        fmt::print("only '{}' rejects {} mutants; runs show {} of them to do something else\n",
                   check.name, check.caught + check.missed, check.caught);
        // Few may not hit a rare one.
        EXPECT_TRUE(check.caught > 0 || seeds.size() < 1000) << check.name;
    }
}

} // namespace
} // namespace evener::schedule
