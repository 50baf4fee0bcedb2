// SPDX-License-Identifier: Apache-2.0
// What a user reads: all problems at once, in the order of the file, each at its place.

#include "support/temporary_folder.hpp"

#include "parse_support.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace evener::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(JobMessages, EverythingIsReportedAtOnceInTheOrderOfTheFile) {
    char const* const text = R"([run]
sede = 4
[model]
preset = "tiny"
heads = 7
rope_theta = nan
[data]
  train = "a.bin"
format = "uint8"
[train]
steps = 1.5
batch_size = 0
validate_every = 10
[optimiser]
learning_rate = 3
[checkpoint]
resume = "nevr"
[[plan.groups]]
ranks = [0, "2-3", true]
layer = 4
)";
    EXPECT_THAT(
        messages_of(text, {"log.level=loud"}),
        ElementsAre(
            "job.toml:2:1: error: unknown key 'sede' in [run]; did you mean 'seed'?",
            "job.toml:5:9: error: 'model.heads' is 7 (it does not divide hidden_size 192); use a "
            "divisor of 192, or give model.head_size",
            "job.toml:6:14: error: 'model.rope_theta' is nan; use a number from 1 to 1000000000000",
            "job.toml:9:10: error: 'data.format' is \"uint8\"; use \"auto\", \"llmc\", \"uint16\", "
            "\"uint32\" or \"megatron\"",
            "job.toml:11:9: error: 'train.steps' is 1.5; use a whole number from 1 to "
            "1000000000000",
            "job.toml:12:14: error: 'train.batch_size' is 0; use a whole number from 1 to 10000000",
            "job.toml:13:18: error: 'train.validate_every' is 10, but there are no validation "
            "files; "
            "list them as 'data.validation', or use 0",
            "job.toml:14:2: error: unknown table 'optimiser'; did you mean 'optimizer'?",
            "job.toml:17:10: error: 'checkpoint.resume' is \"nevr\"; use \"auto\", \"never\" or "
            "the "
            "path of a checkpoint (\"./nevr\" for a folder of that name)",
            "job.toml:19:20: error: 'plan.groups[0].ranks[2]' is true; use a list of ranks such as "
            "[0, 1, \"4-7\"]",
            "job.toml:20:1: error: unknown key 'layer' in [[plan.groups]]; did you mean 'layers'?",
            "--set log.level: error: 'log.level' is \"loud\"; use \"debug\", \"info\", \"warn\" or "
            "\"error\""));
}

TEST(JobMessages, AnEmptyFileSaysWhatAJobNeeds) {
    EXPECT_THAT(
        messages_of(""),
        ElementsAre(
            "job.toml: error: 'train.steps' is not given; use a whole number from 1 to "
            "1000000000000, such as steps = 1000",
            HasSubstr("'model.vocabulary' is not given (and no preset is named); give "
                      "it, or write preset = \"tiny\" in [model]"),
            HasSubstr("'model.hidden_size' is not given"), HasSubstr("'model.layers' is not given"),
            HasSubstr("'model.heads' is not given"), HasSubstr("'model.ffn_size' is not given"),
            HasSubstr("'model.sequence_length' is not given"),
            "job.toml: error: 'data.train' is not given; list token files, such as "
            "train = [\"data/train.bin\"] in [data]"));
}

TEST(JobMessages, AMissingKeyIsReportedAtItsTable) {
    EXPECT_THAT(messages_of("[model]\npreset = \"tiny\"\n[data]\ntrain = \"a\"\n\n[train]\n"),
                ElementsAre(HasSubstr("job.toml:6:1: error: 'train.steps' is not given")));
}

TEST(JobMessages, SyntaxErrorsHaveAPlace) {
    EXPECT_THAT(messages_of(minimal_text + "[run\n"),
                ElementsAre(HasSubstr("job.toml:7:5: error: not TOML: ")));
    EXPECT_THAT(messages_of(minimal_text + "steps = 11\n"),
                ElementsAre(HasSubstr("job.toml:7:9: error: not TOML: ")));
    EXPECT_THAT(messages_of("a = \"\xff\"\n"), ElementsAre(HasSubstr("error: not TOML: ")));
}

TEST(JobMessages, ATableWithoutANameIsASyntaxError) {
    for (std::string const header : {"[.a]", "[=a]", "[[.a]]", "[ \n]", "[]", "[["})
        EXPECT_THAT(messages_of(header + "\n"), ElementsAre(HasSubstr("error: not TOML: ")))
            << header;
}

TEST(JobMessages, TextOutsideOfStringsIsAscii) {
    EXPECT_THAT(
        messages_of(minimal_text + "[run] # \xc3\xa9\nname = \"\xc3\xa9\" \xc3\xa9\n"),
        ElementsAre("job.toml:8:12: error: not TOML: a character outside ASCII stands outside "
                    "of a string; put text in quotes"));
    EXPECT_THAT(messages_of("\xef\xbb\xbf" + minimal_text +
                            "[run]\nname = 'a\\' # '\xc3\xa9\nout = \"\xc3\xa9\\\"\xc3\xa9\"\n"),
                IsEmpty());
}

TEST(JobMessages, StringsAreOneLine) {
    for (std::string const quotes : {"\"\"\"", "\'\'\'"})
        EXPECT_THAT(
            messages_of(minimal_text + "[run]\nname = " + quotes + "a" + quotes),
            ElementsAre("job.toml:8:8: error: a string in three quotes; the strings of a job "
                        "are one line each, in \"...\" or '...'"));
    EXPECT_THAT(messages_of(minimal_text + "[run]\nname = \"\"\nout = ''\n"), IsEmpty());
}

TEST(JobMessages, LongNamesAreRefused) {
    std::string name = "a";
    for (int i = 0; i < 20; ++i)
        name += ".a";
    EXPECT_THAT(
        messages_of(minimal_text + name + " = 1\n"),
        ElementsAre("job.toml:7:40: error: a name has more than 20 parts; the names of a job "
                    "have at most 2, such as plan.groups"));
    EXPECT_THAT(messages_of(minimal_text + name.substr(2) + " = 1\n"),
                ElementsAre("job.toml:7:1: error: unknown key 'a' in [train]"));
}

TEST(JobMessages, ASyntaxErrorDoesNotHideWrongSettings) {
    EXPECT_THAT(messages_of("[run\n", {"train.steps"}),
                ElementsAre(HasSubstr("not TOML"),
                            "--set train.steps: error: the setting has no value; write --set "
                            "table.key=value"));
}

TEST(JobMessages, AValueInPlaceOfATableIsRefused) {
    EXPECT_THAT(
        messages_of("run = 5\n" + minimal_text),
        ElementsAre("job.toml:1:7: error: 'run' is 5; use a table [run] with its keys below "
                    "it"));
    EXPECT_THAT(messages_of(minimal_text + "[[run]]\nseed = 3\n"),
                ElementsAre(HasSubstr("'run' is a list; use a table [run]")));
}

TEST(JobMessages, ShapesThatDoNotFitAreRefused) {
    EXPECT_THAT(
        messages_of(minimal_text, {"model.kv_heads=4"}),
        ElementsAre("--set model.kv_heads: error: 'model.kv_heads' is 4 (it does not divide "
                    "the 6 heads); use a divisor of 6"));
    EXPECT_THAT(messages_of(minimal_text, {"model.head_size=15"}),
                ElementsAre("--set model.head_size: error: 'model.head_size' is 15 (the rotary "
                            "embedding turns pairs); use an even number"));
    EXPECT_THAT(messages_of(minimal_text, {"train.batch_size=4", "train.microbatch_size=5"}),
                ElementsAre("--set train.microbatch_size: error: 'train.microbatch_size' is 5 (the "
                            "batch has 4 sequences); use 1 to 4"));
    EXPECT_THAT(
        messages_of(minimal_text, {"optimizer.warmup_steps=11"}),
        ElementsAre("--set optimizer.warmup_steps: error: 'optimizer.warmup_steps' is 11 (the "
                    "run has 10 steps); use 0 to 10"));
    EXPECT_THAT(messages_of(minimal_text, {"optimizer.warmup_steps=9", "optimizer.decay_steps=8"}),
                ElementsAre("--set optimizer.decay_steps: error: 'optimizer.decay_steps' is 8 (the "
                            "warm-up takes 9 steps of it); use at least 9"));
    EXPECT_THAT(
        messages_of(minimal_text, {"optimizer.min_learning_rate=0.1"}),
        ElementsAre("--set optimizer.min_learning_rate: error: "
                    "'optimizer.min_learning_rate' is 0.1 (the learning rate is 0.0003); use 0 "
                    "to 0.0003"));
    EXPECT_THAT(
        messages_of(minimal_text, {"data.format=uint16", "model.preset=1b"}),
        ElementsAre("--set data.format: error: 'data.format' is \"uint16\" (ids up to 65535), "
                    "but 'model.vocabulary' is 128256; use \"uint32\", or a smaller "
                    "vocabulary"));
    EXPECT_THAT(
        messages_of(minimal_text, {"data.ignore_token=256"}),
        ElementsAre(
            "--set data.ignore_token: error: 'data.ignore_token' is 256 (the vocabulary ends "
            "at 255); use an id below, or -1 for none"));
    EXPECT_THAT(messages_of(minimal_text, {"data.train=[\"a\", \"\"]"}),
                ElementsAre("--set data.train: error: 'data.train[1]' is empty; use a path or a "
                            "glob"));
    EXPECT_THAT(messages_of(minimal_text, {"run.name=a/b"}),
                ElementsAre(HasSubstr("'run.name' is \"a/b\" (it names a folder of results); use a "
                                      "name without '/', and 'run.out' for another place")));
}

TEST(JobMessages, AFileThatCannotBeReadIsBadInput) {
    support::TemporaryFolder const folder;
    std::string const missing = (folder.path() / "missing.toml").string();
    try {
        parse_job(missing);
        FAIL() << "read a file that is not there";
    } catch (core::ConfigError const& error) {
        EXPECT_EQ(error.what(), missing + ": error: the job file cannot be read (No such file or "
                                          "directory); give the path of a TOML job");
        EXPECT_EQ(error.code(), core::ExitCode::bad_input);
    }
    EXPECT_THROW(parse_job(folder.path().string()), core::ConfigError);
}

TEST(JobMessages, ALargeFileIsNoJob) {
    support::TemporaryFolder const folder;
    std::string const path = (folder.path() / "tokens.bin").string();
    std::ofstream{path} << std::string(2 << 20, '#');
    try {
        parse_job(path);
        FAIL() << "took a large file for a job";
    } catch (core::ConfigError const& error) {
        EXPECT_THAT(error.what(), HasSubstr("a job has at most 1048576"));
    }
}

TEST(JobMessages, AFileIsReadAsItsText) {
    support::TemporaryFolder const folder;
    std::string const path = (folder.path() / "first.toml").string();
    std::ofstream{path} << minimal_text;
    Job const job = parse_job(path);
    EXPECT_EQ(job.run.name, "first");
    EXPECT_EQ(job, parse_job_text(minimal_text, "first"));
}

} // namespace
} // namespace evener::job
