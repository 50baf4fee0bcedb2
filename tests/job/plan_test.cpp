// SPDX-License-Identifier: Apache-2.0
// Stage groups: ranks, shares and layers that fit together, and plan files.

#include "job/print.hpp"

#include "parse_support.hpp"
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace evener::job {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The minimal model has 6 decoder layers: 14 entries.
std::vector<std::string> messages_of_groups(std::string const& groups, std::int64_t ranks = 0) {
    return messages_of(minimal_text, {"plan.groups=[" + groups + "]"}, {ranks});
}

std::string at_groups(std::string const& message) {
    return "--set plan.groups: error: " + message;
}

TEST(JobPlan, UnequalGroupsAreAccepted) {
    EXPECT_THAT(messages_of_groups("{ranks=[0,1,2],layers=5,shares=[3,1,0]},"
                                   "{ranks=[4,3],layers=9,dispatch=\"dealt\",shares=[0.5,2]}",
                                   5),
                IsEmpty());
}

TEST(JobPlan, EmptySharesAreEqual) {
    Job const job = job_with({"plan.groups=[{ranks=\"0-2\",layers=14,shard_weights=[1,0,4]}]"});
    EXPECT_THAT(job.plan.groups[0].shares, ElementsAre(1.0, 1.0, 1.0));
    EXPECT_THAT(job.plan.groups[0].shard_weights, ElementsAre(1.0, 0.0, 4.0));
}

TEST(JobPlan, EveryRankStandsInOneGroup) {
    EXPECT_THAT(
        messages_of_groups("{ranks=[0,1],layers=7},{ranks=[1,2],layers=7}"),
        ElementsAre(at_groups("'plan.groups[1].ranks' names rank 1 (it is in plan.groups[0] "
                              "already); put every rank in one group, once")));
    EXPECT_THAT(messages_of_groups("{ranks=[0,0],layers=14}"),
                ElementsAre(HasSubstr("names rank 0 (it is in plan.groups[0] already)")));
    EXPECT_THAT(messages_of_groups("{ranks=[0,1],layers=7},{ranks=[3],layers=7}"),
                ElementsAre(at_groups("'plan.groups' leave out rank 2 (ranks run from 0 to 3); put "
                                      "every rank in one group (a share of 0 is allowed)")));
}

TEST(JobPlan, GroupsForOtherRanksAreDroppedWhereTheJobSaysSo) {
    std::vector<std::string> const settings{"plan.groups=[{ranks=[0,1]},{ranks=[2]}]",
                                            "plan.chunks=[{group=0,layers=7},{group=1,layers=7}]",
                                            "plan.schedule_file=some.csv",
                                            "plan.on_mismatch=replan"};
    for (std::int64_t const ranks : {0, 2, 3, 5}) {
        std::vector<std::string> said;
        Job const job =
            parse_job_text(minimal_text, "job.toml", settings,
                           {ranks, [&](std::string const& line) { said.push_back(line); }});
        bool const fits = ranks == 3 || ranks == 0; // or nobody knows
        EXPECT_EQ(job.plan.groups.size(), fits ? 2u : 0u) << ranks;
        EXPECT_EQ(job.plan.chunks.size(), fits ? 2u : 0u) << ranks;
        EXPECT_EQ(job.plan.schedule_file, fits ? "some.csv" : "") << ranks;
        if (fits)
            EXPECT_THAT(said, IsEmpty());
        else
            EXPECT_THAT(said, ElementsAre(HasSubstr(fmt::format(
                                  "are for 3 ranks, this job has {}: planning anew", ranks))));
    }
}

TEST(JobPlan, RanksAgreeWithTheStart) {
    std::string const groups = "{ranks=[0,1],layers=7},{ranks=[2],layers=7}";
    EXPECT_THAT(messages_of_groups(groups, 3), IsEmpty());
    EXPECT_THAT(
        messages_of_groups(groups, 2),
        ElementsAre(at_groups("'plan.groups[1].ranks' names rank 2 (the job has 2 ranks); use "
                              "0 to 1, start more ranks, or set 'plan.on_mismatch' to "
                              "\"replan\"")));
    EXPECT_THAT(messages_of_groups(groups, 5),
                ElementsAre(AllOf(HasSubstr("leave out rank 3 (ranks run from 0 to 4)"),
                                  HasSubstr("'plan.on_mismatch' to \"replan\""))));
}

TEST(JobPlan, LayersAddUpToTheModels) {
    EXPECT_THAT(messages_of_groups("{ranks=[0],layers=7},{ranks=[1],layers=6}"),
                ElementsAre(at_groups("'plan.groups' hold 13 layers (the model's list has 14: "
                                      "embedding, 6 attention, 6 feed-forward, head); make their "
                                      "'layers' add up to 14")));
    EXPECT_THAT(messages_of_groups("{ranks=[0],layers=14},{ranks=[1],layers=0}"),
                ElementsAre(at_groups("'plan.groups[1].layers' is 0; use a whole number from 1 to "
                                      "20002")));
    EXPECT_THAT(
        messages_of_groups("{ranks=[0]}"),
        ElementsAre(at_groups("'plan.groups[0].layers' is not given; use a whole number from 1 "
                              "to 20002, such as layers = 14")));
}

TEST(JobPlan, WeightsFitTheRanks) {
    EXPECT_THAT(
        messages_of_groups("{ranks=[0,1],layers=14,shares=[1]}"),
        ElementsAre(at_groups("'plan.groups[0].shares' has 1 weights (the group has 2 ranks); "
                              "give one weight per rank, or none for equal ones")));
    EXPECT_THAT(messages_of_groups("{ranks=[0,1],layers=14,shares=[0, 0]}"),
                ElementsAre(at_groups("'plan.groups[0].shares' are all 0; give at least one rank a "
                                      "part")));
    EXPECT_THAT(
        messages_of_groups("{ranks=[0],layers=14,shard_weights=[-1]}"),
        ElementsAre(at_groups("'plan.groups[0].shard_weights[0]' is -1.0; use a number from 0 "
                              "to 1e+18")));
}

TEST(JobPlan, ChunksArePlacedOrListed) {
    std::string const groups = "plan.groups=[{ranks=[0],layers=8},{ranks=[1],layers=6}]";
    EXPECT_THAT(messages_of(minimal_text, {groups, "plan.chunks_per_group=3", "plan.placement=v",
                                           "plan.schedule=zb-v", "plan.schedule_file=a.csv"}),
                IsEmpty());
    EXPECT_THAT(
        messages_of(minimal_text, {groups, "plan.chunks_per_group=7", "plan.schedule=gpipe"}),
        ElementsAre("--set plan.groups: error: 'plan.groups[1].layers' is 6 (each group has "
                    "7 chunks, and a chunk at least one layer); lower "
                    "'plan.chunks_per_group'"));
    std::string const bare = "plan.groups=[{ranks=[0]},{ranks=[1]}]";
    auto const messages = [&](std::string const& chunks) {
        return messages_of(minimal_text, {bare, "plan.chunks=[" + chunks + "]"});
    };
    EXPECT_THAT(messages("{group=0,layers=9},{group=1,layers=3},{group=0,layers=2}"), IsEmpty());
    EXPECT_THAT(messages("{group=0,layers=9},{group=1,layers=3}"),
                ElementsAre(HasSubstr("'plan.chunks' hold 12 layers (the model's list has 14")));
    EXPECT_THAT(messages("{group=0,layers=9},{group=2,layers=5}"),
                ElementsAre("--set plan.chunks: error: 'plan.chunks[1].group' is 2 (there are 2 "
                            "groups); use 0 to 1"));
    EXPECT_THAT(messages("{group=0,layers=14}"),
                ElementsAre("--set plan.chunks: error: 'plan.chunks' leave out group 1 (each group "
                            "needs a chunk); give it one, or drop the group"));
    EXPECT_THAT(messages("{group=0,layers=14},{group=1}"),
                ElementsAre("--set plan.chunks: error: 'plan.chunks[1].layers' is not given; use a "
                            "whole number from 1 to 20002, such as layers = 14"));
    EXPECT_THAT(messages_of(minimal_text, {groups, "plan.chunks=[{group=0,layers=14}]"}),
                Contains(HasSubstr("'plan.groups[0].layers' is 8, but 'plan.chunks' say which "
                                   "layers the groups hold; leave one of them out")));
    EXPECT_THAT(messages_of(minimal_text, {"plan.chunks=[{group=0,layers=14}]"}),
                ElementsAre(HasSubstr("'plan.chunks' are given without 'plan.groups'")));
    EXPECT_THAT(messages_of(minimal_text, {bare, "plan.chunks_per_group=2",
                                           "plan.chunks=[{group=0,layers=7},{group=1,layers=7}]"}),
                ElementsAre(HasSubstr("'plan.chunks_per_group' is 2, but 'plan.chunks' list the "
                                      "chunks; leave one of them out")));
}

TEST(JobPlan, AGroupsOffloadReplacesThePlans) {
    Plan const plan = parse_plan_text("[plan.offload]\noptimizer = true\n"
                                      "[[plan.groups]]\nranks = [0]\nlayers = 4\n"
                                      "[[plan.groups]]\nranks = [1]\nlayers = 5\noffload = []\n"
                                      "[[plan.groups]]\nranks = [2]\nlayers = 5\n"
                                      "offload = [\"activations\", \"parameters\"]\n",
                                      "plan.toml");
    EXPECT_EQ(plan.offload, (Offload{false, true, false}));
    EXPECT_EQ(plan.groups[0].offload, (Offload{false, true, false}));
    EXPECT_EQ(plan.groups[1].offload, Offload{});
    EXPECT_EQ(plan.groups[2].offload, (Offload{true, false, true}));
    EXPECT_THAT(print_plan(plan), HasSubstr("offload = [\"parameters\", \"activations\"]\n"));
    EXPECT_THAT(messages_of_groups("{ranks=[0],layers=14,offload=[\"optimizer\",\"moments\"]}"),
                ElementsAre(at_groups("'plan.groups[0].offload[1]' is \"moments\"; use a list of "
                                      "any of \"parameters\", \"optimizer\", \"activations\"")));
}

TEST(JobPlan, ChunksRecomputeAsThePlanOrAsTheySay) {
    Plan const plan = job_with({"plan.recompute=true", "plan.groups=[{ranks=[0]}]",
                                "plan.chunks=[{group=0,layers=6},{group=0,layers=8,recompute="
                                "false}]"})
                          .plan;
    EXPECT_EQ(plan.chunks[0].recompute, true);
    EXPECT_EQ(plan.chunks[1].recompute, false);
    EXPECT_EQ(parse_plan_text(print_plan(plan), "plan.toml"), plan);
}

TEST(JobPlan, InterleavedUpdatesWaitForNoNorm) {
    std::string const about = "'plan.interleave_updates' is true, but ";
    EXPECT_THAT(
        messages_of(minimal_text, {"plan.interleave_updates=true", "train.on_nonfinite=report"}),
        ElementsAre("--set plan.interleave_updates: error: " + about +
                    "'optimizer.clip_norm' is 1 (an update that does not wait for the norm of the "
                    "whole gradient cannot be clipped); set 'optimizer.clip_norm' to 0, or leave "
                    "'plan.interleave_updates' out"));
    EXPECT_THAT(messages_of(minimal_text, {"plan.interleave_updates=true", "optimizer.clip_norm=0",
                                           "train.on_nonfinite=skip"}),
                ElementsAre(AllOf(HasSubstr(about + "'train.on_nonfinite' is \"skip\" (an update"),
                                  HasSubstr("cannot be skipped); set 'train.on_nonfinite' to "
                                            "\"report\""))));
    EXPECT_THAT(messages_of(minimal_text, {"plan.interleave_updates=true", "optimizer.clip_norm=0",
                                           "train.on_nonfinite=report"}),
                IsEmpty());
}

TEST(JobPlan, SchedulesSuitThePlacement) {
    auto const messages = [](std::string const& schedule, std::string const& chunks,
                             std::string const& placement) {
        return messages_of(minimal_text,
                           {"plan.schedule=" + schedule, "plan.chunks_per_group=" + chunks,
                            "plan.placement=" + placement});
    };
    EXPECT_THAT(messages("zb-h1", "2", "round_robin"),
                ElementsAre("--set plan.schedule: error: 'plan.schedule' is \"zb-h1\" (for one "
                            "chunk per group), but 'plan.chunks_per_group' is 2; set that to 1, or "
                            "choose another schedule"));
    EXPECT_THAT(messages("zb-v", "2", "round_robin"),
                ElementsAre("--set plan.schedule: error: 'plan.schedule' is \"zb-v\" (for two "
                            "chunks per group, from the first to the last and back); set "
                            "'plan.chunks_per_group' to 2 and 'plan.placement' to \"v\", or choose "
                            "another schedule"));
    EXPECT_THAT(messages("interleaved", "2", "v"),
                ElementsAre("--set plan.schedule: error: 'plan.schedule' is \"interleaved\" (for "
                            "chunks in turns), but 'plan.placement' is \"v\"; set that to "
                            "\"round_robin\", or choose another schedule"));
    for (std::string const schedule : {"auto", "greedy", "gpipe", "breadth_first", "interleaved"})
        EXPECT_THAT(messages(schedule, "3", "round_robin"), IsEmpty());
    EXPECT_THAT(messages("zb-v", "2", "v"), IsEmpty());
}

TEST(JobPlan, DealsNameARankOfTheGroupForEachMicrobatch) {
    // 32 sequences in microbatches of 8
    auto const messages = [](std::string const& group) {
        return messages_of(minimal_text, {"plan.groups=[{ranks=[0,1],layers=14," + group + "}]",
                                          "train.microbatch_size=8"});
    };
    EXPECT_THAT(messages("dispatch=\"dealt\",deal=[1,0,\"0-1\"]"), IsEmpty());
    EXPECT_THAT(
        messages("deal=[1,0,0,1]"),
        ElementsAre(at_groups("'plan.groups[0].deal' is given, but 'plan.groups[0].dispatch' "
                              "is \"shares\" (which divides every microbatch); set it to "
                              "\"dealt\"")));
    EXPECT_THAT(
        messages("dispatch=\"dealt\",deal=[1,0,2,1]"),
        ElementsAre(at_groups("'plan.groups[0].deal' names rank 2 (it is not in the group); "
                              "deal microbatches to the group's ranks")));
    EXPECT_THAT(messages("dispatch=\"dealt\",deal=[1,0,1]"),
                ElementsAre(at_groups("'plan.groups[0].deal' deals 3 microbatches (a batch has 4); "
                                      "name one rank for each, or leave it out")));
}

TEST(JobPlan, RankRangesAreChecked) {
    for (std::string const bad : {"\"3-1\"", "\"0-1000000\"", "-1"})
        EXPECT_THAT(messages_of_groups("{ranks=[" + bad + "],layers=14}"),
                    ElementsAre(at_groups("'plan.groups[0].ranks[0]' is " + bad +
                                          " (not a range of ranks from 0 to 999999, the lower one "
                                          "first); use a list of ranks such as [0, 1, \"4-7\"]")));
    for (std::string const bad : {"\"a-b\"", "\"1-\"", "\"-\"", "\"\"", "\" 1\"", "1.0"})
        EXPECT_THAT(messages_of_groups("{ranks=[" + bad + "],layers=14}"),
                    ElementsAre(at_groups("'plan.groups[0].ranks[0]' is " + bad +
                                          "; use a list of ranks such as [0, 1, \"4-7\"]")));
    EXPECT_THAT(
        messages_of_groups("{layers=14}"),
        ElementsAre(at_groups("'plan.groups[0].ranks' is not given; list the group's ranks, "
                              "such as ranks = [0, 1] or \"0-1\"")));
    std::string many = "{layers=14,ranks=[\"0-999999\"";
    for (int i = 0; i < 1000; ++i)
        many += ",\"0-999999\"";
    EXPECT_EQ(messages_of_groups(many + "]}").size(), 1000u); // and not a billion ranks in memory
}

TEST(JobPlan, APlanFileHoldsAPlan) {
    Plan const plan = job_with({"plan.groups=[{ranks=[0,\"2-9\"],layers=5},{ranks=[1],layers=9}]",
                                "plan.schedule=gpipe", "plan.split_backward=true"})
                          .plan;
    std::string const text = print_plan(plan);
    EXPECT_THAT(text,
                HasSubstr("[[plan.groups]]\nranks = [0, \"2-9\"]\nlayers = 5\nshares = [1, 1, "));
    EXPECT_THAT(print_plan(job_with({"plan.groups=[{ranks=\"0-1\",layers=14}]"}).plan),
                HasSubstr("ranks = [0, 1]\n"));
    EXPECT_EQ(parse_plan_text(text, "plan.toml"), plan);
    EXPECT_EQ(parse_plan_text("", "plan.toml"), Plan{});
}

std::string plan_error(std::string const& text, ParseOptions const& options = {}) {
    try {
        parse_plan_text(text, "plan.toml", options);
    } catch (core::ConfigError const& error) {
        return error.what();
    }
    return "";
}

TEST(JobPlan, APlanFileIsChecked) {
    EXPECT_EQ(plan_error("[model]\nlayers = 3\n"), "plan.toml:1:2: error: unknown table 'model'");
    EXPECT_EQ(plan_error("[plan]\nreceive_buffers = -1\n"),
              "plan.toml:2:19: error: 'plan.receive_buffers' is -1; use a whole number from 0 to "
              "65536");
    EXPECT_THAT(plan_error("[[plan.groups]]\nranks = [0]\nlayers = 3\n", {2}),
                HasSubstr("leave out rank 1"));
    EXPECT_THAT(plan_error("[plan\n"), HasSubstr("plan.toml:1:6: error: not TOML"));
}

TEST(JobPlan, CheckJobFindsAPlanThatDoesNotFit) {
    Job job = job_with({});
    check_job(job);
    job.plan = parse_plan_text("[[plan.groups]]\nranks = [0]\nlayers = 3\n", "plan.toml");
    job.plan.receive_buffers = -1;
    try {
        check_job(job, {2});
        FAIL() << "a plan of 3 layers for a model of 14";
    } catch (core::ConfigError const& error) {
        EXPECT_THAT(
            error.what(),
            AllOf(HasSubstr("error: 'plan.receive_buffers' is -1"),
                  HasSubstr("error: 'plan.groups' leave out rank 1"),
                  HasSubstr("error: 'plan.groups' hold 3 layers (the model's list has 14")));
    }
}

} // namespace
} // namespace evener::job
