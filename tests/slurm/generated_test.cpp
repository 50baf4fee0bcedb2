// SPDX-License-Identifier: Apache-2.0

// `evener template slurm`: the files of slurm/, filled in.

#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace evener::slurm_test {
namespace {

using testing::HasSubstr;

std::string content(std::filesystem::path const& path) {
    std::ifstream const file{path};
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
}

support::ProcessResult template_with(std::vector<std::string> const& options) {
    std::vector<std::string> words{support::program("evener").string(), "template", "slurm"};
    words.insert(words.end(), options.begin(), options.end());
    return support::run_process(words);
}

/// The lines of `text` that `original` does not have at their place.
std::vector<std::string> changed_lines(std::string const& text, std::string const& original) {
    std::istringstream now{text};
    std::istringstream then{original};
    std::vector<std::string> changed;
    for (std::string a, b; std::getline(now, a) && std::getline(then, b);)
        if (a != b)
            changed.push_back(a);
    EXPECT_TRUE(now.eof() || now.peek() == EOF);
    return changed;
}

std::filesystem::path slurm_folder() {
    return support::source_root() / "slurm";
}

TEST(SlurmTemplate, PrintsTheFilesOfTheFolder) {
    for (auto const& [kind, file] : {std::pair{"nodes", "evener.sbatch"},
                                     {"hetjob", "hetjob.sbatch"},
                                     {"mpirun", "mpirun.sbatch"}})
        EXPECT_EQ(template_with({"--kind", kind}).output, content(slurm_folder() / file)) << kind;
    EXPECT_EQ(template_with({}).output, content(slurm_folder() / "evener.sbatch"));
}

TEST(SlurmTemplate, ChangesTheLinesThatAreAskedForAndNoOthers) {
    std::string const original = content(slurm_folder() / "evener.sbatch");
    auto const result = template_with({"--job", "jobs/my-1.toml", "--nodes", "3-17", "--time",
                                       "2-00:30:00", "--ntasks-per-node", "5"});
    EXPECT_THAT(changed_lines(result.output, original),
                testing::ElementsAre("#SBATCH --nodes=3-17", "#SBATCH --mincpus=40",
                                     "#SBATCH --time=2-00:30:00", "JOB=${JOB:-jobs/my-1.toml}",
                                     "RANKS_PER_NODE=${RANKS_PER_NODE:-5}"));
}

TEST(SlurmTemplate, GivesEachPartOfAHeterogeneousJobItsOwn) {
    support::TemporaryFolder const folder{"template"};
    std::string const file = (folder / "my.sbatch").string();
    auto const result = template_with(
        {"--kind", "hetjob", "--nodes", "9,1-8", "--cpus-per-task", "3", "--output", file});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    EXPECT_EQ(result.output, "");
    EXPECT_THAT(changed_lines(content(file), content(slurm_folder() / "hetjob.sbatch")),
                testing::ElementsAre("#SBATCH --nodes=9", "#SBATCH --cpus-per-task=3",
                                     "#SBATCH --nodes=1-8", "#SBATCH --cpus-per-task=3"));
}

TEST(SlurmTemplate, RefusesWhatAShellWouldReadAsMore) {
    for (auto const& [option, value] :
         {std::pair{"--job", "a}$(b).toml"}, {"--job", "a b.toml"}, {"--nodes", "2 --exclusive"}}) {
        auto const result = template_with({option, value});
        EXPECT_EQ(result.exit_code, 2) << value;
        EXPECT_THAT(result.errors, HasSubstr("or edit the script")) << value;
        EXPECT_EQ(result.output, "") << value;
    }
    auto const result = template_with({"--nodes", "1,2"});
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(result.errors, HasSubstr("the job has 1 part"));
    EXPECT_EQ(template_with({"--kind", "magic"}).exit_code, 2);
}

} // namespace
} // namespace evener::slurm_test
