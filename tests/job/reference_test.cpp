// SPDX-License-Identifier: Apache-2.0
// inputs/reference.toml is the text that the code generates, and says what the code does.
// EVENER_UPDATE_REFERENCE=1 writes the file again.

#include "job/print.hpp"
#include "job/schema.hpp"
#include "support/paths.hpp"

#include "parse_support.hpp"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>

namespace evener::job {
namespace {

TEST(JobReference, TheFileEqualsTheCode) {
    auto const path = support::source_root() / "inputs" / "reference.toml";
    if (std::getenv("EVENER_UPDATE_REFERENCE") != nullptr)
        std::ofstream{path} << reference_text();
    std::ifstream file{path};
    std::string const text{std::istreambuf_iterator<char>{file}, {}};
    EXPECT_EQ(text, reference_text()) << "EVENER_UPDATE_REFERENCE=1 writes the file again";
}

/// `text` with every "#key = value" and "#[[table]]" made a live line.
std::string with_all_live(std::string const& text) {
    std::istringstream lines{text};
    std::string result;
    for (std::string line; std::getline(lines, line);)
        result += (line.starts_with("#") && !line.starts_with("# ") ? line.substr(1) : line) + "\n";
    return result;
}

/// All keys live; groups stay out.
std::string all_keys_live() {
    std::string text = reference_text();
    std::size_t const groups = text.find("#[[plan.groups]]");
    std::size_t const checkpoint = text.find("[checkpoint]");
    text.erase(groups, checkpoint - groups);
    return with_all_live(text);
}

TEST(JobReference, IsAJobOfDefaults) {
    Job const job = parse_job_text(reference_text(), "reference.toml");
    EXPECT_EQ(job,
              parse_job_text("[model]\npreset = \"tiny\"\n[data]\ntrain = [\"data/train.bin\"]\n"
                             "[train]\nsteps = 1000\n",
                             "reference.toml"));
}

TEST(JobReference, SaysTheDefaults) {
    std::string const text = all_keys_live();
    EXPECT_EQ(parse_job_text(text, "reference.toml"),
              parse_job_text(reference_text(), "reference.toml"));
    for (Table const& table : tables())
        for (Key<Job> const& key : table.keys)
            if (key.name == "offload") {
                EXPECT_THAT(text, testing::HasSubstr("\n[plan.offload]\n"));
            } else if (key.name != "groups" && key.name != "chunks") {
                EXPECT_THAT(text, testing::HasSubstr(fmt::format("\n{} = ", key.name)))
                    << table.name;
            }
    for (Key<Offload> const& key : offload_keys())
        EXPECT_THAT(text, testing::HasSubstr(fmt::format("\n{} = false\n", key.name)));
}

TEST(JobReference, GroupsBecomeAPlanWhenUncommented) {
    std::string const reference = reference_text();
    std::string const text = with_all_live(reference.substr(0, reference.find("#[[plan.chunks]]")));
    Job const job = parse_job_text(text, "reference.toml");
    ASSERT_EQ(job.plan.groups.size(), 1u);
    EXPECT_EQ(job.plan.groups[0].ranks.size(), 3u);
    EXPECT_EQ(job.plan.groups[0].layers, layer_count(job.model));
}

TEST(JobReference, LinesFitAPage) {
    std::string const text = reference_text();
    for (std::size_t begin = 0; begin < text.size();) {
        std::size_t const end = text.find('\n', begin);
        EXPECT_LE(end - begin, 100u) << text.substr(begin, end - begin);
        begin = end + 1;
    }
}

} // namespace
} // namespace evener::job
