// SPDX-License-Identifier: Apache-2.0
// `--set table.key=value`: TOML values, bare words, and what is no setting.

#include "parse_support.hpp"
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evener::job {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(JobSettings, OverrideTheFileAndTheLastOneWins) {
    EXPECT_EQ(job_with({"train.steps=20"}).train.steps, 20);
    EXPECT_EQ(job_with({"train.steps=20", "train.steps=30"}).train.steps, 30);
    EXPECT_EQ(job_with({" train.steps = 20 "}).train.steps, 20);
}

TEST(JobSettings, ValuesAreToml) {
    EXPECT_EQ(job_with({"run.seed=0x1F"}).run.seed, 31u);
    EXPECT_EQ(job_with({"optimizer.learning_rate=1e-3"}).optimizer.learning_rate, 1e-3);
    EXPECT_EQ(job_with({"optimizer.learning_rate=1"}).optimizer.learning_rate, 1.0);
    EXPECT_FALSE(job_with({"data.shuffle=false"}).data.shuffle);
    EXPECT_THAT(job_with({"data.train=[\"x\", 'y z']"}).data.train, ElementsAre("x", "y z"));
    EXPECT_EQ(job_with({"run.name=\"a \\\"b\\\"\""}).run.name, "a \"b\"");
}

TEST(JobSettings, BareWordsAreStrings) {
    EXPECT_EQ(job_with({"run.name=first"}).run.name, "first");
    EXPECT_EQ(job_with({"run.out=some/folder x"}).run.out, "some/folder x");
    EXPECT_EQ(job_with({"plan.schedule=gpipe"}).plan.schedule, Schedule::gpipe);
    EXPECT_EQ(job_with({"plan.schedule=1f1b"}).plan.schedule, Schedule::one_f_one_b);
    EXPECT_THAT(job_with({"data.train=data/*.bin"}).data.train, ElementsAre("data/*.bin"));
}

TEST(JobSettings, KeysThatTakeWordsTakeAnything) {
    EXPECT_EQ(job_with({"run.name=2024"}).run.name, "2024");
    EXPECT_EQ(job_with({"run.name=1979-05-27"}).run.name, "1979-05-27");
    EXPECT_EQ(job_with({"run.name=a=b"}).run.name, "a=b");
    EXPECT_EQ(job_with({"log.gradients=x", "log.gradients="}).log.gradients, "");
}

TEST(JobSettings, GroupsAreInlineTables) {
    Job const job = job_with({"plan.groups=[{ranks = [0, 1], layers = 9, shares = [2, 1]}, "
                              "{ranks = \"2-4\", layers = 5}]"});
    ASSERT_EQ(job.plan.groups.size(), 2u);
    EXPECT_THAT(job.plan.groups[0].shares, ElementsAre(2.0, 1.0));
    EXPECT_THAT(job.plan.groups[1].ranks,
                ElementsAre(core::RankId{2}, core::RankId{3}, core::RankId{4}));
}

TEST(JobSettings, ATableInATableIsNamedWithDots) {
    EXPECT_EQ(job_with({"plan.offload.optimizer=true"}).plan.offload,
              (Offload{false, true, false}));
    EXPECT_EQ(job_with({"plan.offload={parameters=true}"}).plan.offload,
              (Offload{true, false, false}));
    EXPECT_THAT(messages_of(minimal_text, {"plan.offload.optimizer=1"}),
                ElementsAre("--set plan.offload.optimizer: error: 'plan.offload.optimizer' is 1; "
                            "use true or false"));
    EXPECT_THAT(messages_of(minimal_text, {"plan.replan.x=1"}),
                ElementsAre("--set plan.replan.x: error: unknown key 'replan.x' in [plan]; did you "
                            "mean 'replan'?"));
}

TEST(JobSettings, WhatIsNoSettingIsRefused) {
    EXPECT_THAT(messages_of(minimal_text, {"train.steps"}),
                ElementsAre("--set train.steps: error: the setting has no value; write --set "
                            "table.key=value"));
    EXPECT_THAT(messages_of(minimal_text, {"steps=3"}),
                ElementsAre("--set steps: error: \"steps\" names no table; write --set "
                            "table.key=value; did you mean 'train.steps'?"));
    EXPECT_THAT(
        messages_of(minimal_text, {"trian.steps=3"}),
        ElementsAre("--set trian.steps: error: unknown table 'trian'; did you mean 'train'?"));
    EXPECT_THAT(
        messages_of(minimal_text, {"train.stesp=3"}),
        ElementsAre("--set train.stesp: error: unknown key 'stesp' in [train]; did you mean "
                    "'steps'?"));
    EXPECT_THAT(messages_of(minimal_text, {"data.train=[a.bin]"}),
                ElementsAre(AllOf(HasSubstr("--set data.train: error: the value cannot be read ("),
                                  HasSubstr("; write a TOML value, with strings inside lists in "
                                            "quotes"))));
    EXPECT_THAT(messages_of(minimal_text, {"data.train=[\"a\"]\nbatch_size = 4"}),
                ElementsAre(HasSubstr("it is more than one value")));
}

TEST(JobSettings, ASettingMayGiveWhatTheFileLacks) {
    Job const job =
        parse_job_text("", "job.toml", {"model.preset=tiny", "data.train=a.bin", "train.steps=10"});
    EXPECT_EQ(job, parse_job_text(minimal_text, "job.toml"));
}

TEST(JobSettings, BytesThatAreNoTextAreRefused) {
    EXPECT_THAT(messages_of(minimal_text, {"run.name=\xff\xfe"}),
                ElementsAre(HasSubstr("--set run.name: error: the value cannot be read (")));
}

} // namespace
} // namespace evener::job
