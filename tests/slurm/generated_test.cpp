// SPDX-License-Identifier: Apache-2.0

// `evener template slurm`: the files of slurm/, filled in.

#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

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
    for (auto const& [option, value] : {std::pair{"--job", "a}$(b).toml"}, {"--job", "a b.toml"}}) {
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

TEST(SlurmTemplate, RefusesNodesThatSlurmWouldRefuse) {
    for (std::string const value : {"4", "2-8", "3-3", "1"})
        EXPECT_EQ(template_with({"--nodes", value}).exit_code, 0) << value;
    for (std::string const value :
         {"0", "8-2", "0-4", "-4", "4-", "1-2-3", "many", "2 --exclusive"}) {
        auto const result = template_with({"--nodes=" + value});
        EXPECT_EQ(result.exit_code, 2) << value;
        EXPECT_THAT(result.errors, HasSubstr("'--nodes' is '" + value + "' (it is N or MIN-MAX"));
        EXPECT_EQ(result.output, "") << value;
    }
}

TEST(SlurmTemplate, RefusesTimesThatSlurmWouldRefuse) {
    for (std::string const value :
         {"90", "90:30", "100:00:00", "1-12", "0-12:30", "2-23:59:59", "0:01"})
        EXPECT_EQ(template_with({"--time", value}).exit_code, 0) << value;
    for (std::string const value : {"0", "00:00:00", "0-0", "1:2:3:4", "1-24", "10:60", "4h", "-5",
                                    "1-", "soon", "1-2-3", "5 minutes"}) {
        auto const result = template_with({"--time=" + value});
        EXPECT_EQ(result.exit_code, 2) << value;
        EXPECT_THAT(result.errors, HasSubstr("'--time' is '" + value + "' ("));
        EXPECT_THAT(result.errors,
                    HasSubstr("give minutes, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS"));
        EXPECT_EQ(result.output, "") << value;
    }
}

TEST(SlurmTemplate, WritesNothingOverWhatIsThere) {
    namespace fs = std::filesystem;
    support::TemporaryFolder const folder{"template"};
    std::ofstream{folder / "edited"} << "by hand";
    fs::create_symlink("edited", folder / "link");
    fs::create_symlink("nowhere", folder / "dangling");
    fs::create_directory(folder / "folder");
    ASSERT_EQ(::mkfifo((folder / "fifo").c_str(), 0600), 0);
    for (auto const& [name, reason] :
         {std::pair{"edited", "exists already; remove it or name another"},
          {"link", "exists already; remove it or name another"},
          {"dangling", "is no regular file"},
          {"folder", "is no regular file"},
          {"fifo", "is no regular file"}}) {
        std::string const path = (folder / name).string();
        fs::file_type const before = fs::symlink_status(path).type();
        auto const result = template_with({"--output", path});
        EXPECT_EQ(result.exit_code, 2) << name;
        EXPECT_THAT(result.errors, HasSubstr("'" + path + "' " + reason));
        EXPECT_EQ(fs::symlink_status(path).type(), before) << name;
    }
    EXPECT_EQ(content(folder / "edited"), "by hand");
}

TEST(SlurmTemplate, WarnsOfAJobThatIsNotThere) {
    support::TemporaryFolder const folder{"template"};
    std::string const job = (folder / "job.toml").string();
    auto const missing = template_with({"--job", job});
    EXPECT_EQ(missing.exit_code, 0);
    EXPECT_THAT(missing.errors, HasSubstr("warning: there is no job file '" + job + "'"));
    EXPECT_THAT(missing.output, HasSubstr(job));
    std::ofstream{job} << "";
    EXPECT_EQ(template_with({"--job", job}).errors, "");
}

} // namespace
} // namespace evener::slurm_test
