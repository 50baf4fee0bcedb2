// SPDX-License-Identifier: Apache-2.0
#include "runtime/time_limit.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace evener::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::seconds;

constexpr double unix_now = 1'000'000;

class Choice : public testing::Test {
  protected:
    /// Seconds from now, 0 where there is none.
    long chosen(std::string const& limit, std::map<std::string, std::string> const& environment,
                seconds running = seconds{0}) {
        job::Run run;
        run.time_limit = limit;
        auto const now = Clock::now();
        DeadlineChoice const choice = choose_deadline(
            run, now - running,
            [&](char const* name) {
                auto const found = environment.find(name);
                return found == environment.end() ? nullptr : found->second.c_str();
            },
            unix_now);
        line_ = choice.line;
        if (!choice.deadline)
            return 0;
        return std::lround(std::chrono::duration<double>(choice.deadline->end - now).count());
    }
    bool says(std::string const& words) const { return line_.find(words) != std::string::npos; }

    std::string line_;
};

TEST_F(Choice, IsNoneWhereNobodyLimitsTheJob) {
    EXPECT_EQ(chosen("", {}), 0);
    EXPECT_EQ(line_, "");
}

TEST_F(Choice, CountsTheJobsLimitFromItsStart) {
    EXPECT_EQ(chosen("1:40", {}, seconds{30}), 70);
    EXPECT_TRUE(says("'run.time_limit'")) << line_;
}

TEST_F(Choice, TakesTheEndOfTheSlurmJob) {
    EXPECT_EQ(chosen("", {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_END_TIME", "1000500"}}), 500);
    EXPECT_TRUE(says("the Slurm job ends in 500 s")) << line_;
}

TEST_F(Choice, TakesTheEarlierOne) {
    std::map<std::string, std::string> const slurm{{"SLURM_JOB_END_TIME", "1000500"}};
    EXPECT_EQ(chosen("400", slurm), 400);
    EXPECT_TRUE(says("before the Slurm job")) << line_;
    EXPECT_EQ(chosen("600", slurm), 500);
    EXPECT_TRUE(says("before 'run.time_limit'")) << line_;
}

TEST_F(Choice, SaysWhenSlurmTellsNoEnd) {
    EXPECT_EQ(chosen("", {{"SLURM_JOB_ID", "7"}}), 0);
    EXPECT_TRUE(says("Slurm does not tell when job 7 ends")) << line_;
    EXPECT_EQ(chosen("60", {{"SLURM_JOB_ID", "7"}}), 60);
    EXPECT_TRUE(says("'run.time_limit'")) << line_;
    for (char const* const wrong : {"", "soon", "1000500x", "999999"}) {
        EXPECT_EQ(chosen("", {{"SLURM_JOB_END_TIME", wrong}}), 0) << wrong;
        EXPECT_TRUE(says("counts for nothing")) << line_;
    }
}

class Limit : public testing::Test {
  protected:
    /// Whether a step that begins with that many seconds left is the last one.
    bool last(double left, StepsAhead const& ahead = {.step = 9}) {
        auto const now =
            start_ + seconds{1000} -
            std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(left));
        auto const words = limit_.last_step(ahead, now);
        words_ = words.value_or("");
        return words.has_value();
    }

    Clock::time_point start_ = Clock::now();
    TimeLimit limit_{{start_ + seconds{1000}}, 600'000'000}; // 3 s, and 1 s beside
    std::string words_;
};

// Before any step: save 4 s, margin 2 s.
TEST_F(Limit, LeavesTimeForAnEstimatedSave) {
    EXPECT_FALSE(last(6.01));
    EXPECT_TRUE(last(5.99));
    EXPECT_NE(words_.find("a save 4 s (estimated from 600.0 MB)"), std::string::npos) << words_;
}

// Two steps of 10 s, a save of 6 s, a margin of 5 s.
TEST_F(Limit, LeavesTimeForAStepMoreAndASave) {
    limit_.note_step(4);
    limit_.note_step(10);
    limit_.note_step(5);
    limit_.note_save(6);
    EXPECT_FALSE(last(31.01));
    EXPECT_TRUE(last(30.99));
    EXPECT_EQ(words_, "time limit in 31 s, a step takes 10 s and a save 6 s: saving and stopping "
                      "at step 9");
    // What comes with the steps counts too.
    EXPECT_TRUE(last(36.99, {.step = 9, .saves = true}));
    EXPECT_FALSE(last(37.01, {.step = 9, .saves = true}));
    limit_.note_validation(20);
    EXPECT_TRUE(last(50.99, {.step = 9, .validates = true}));
    EXPECT_FALSE(last(51.01, {.step = 9, .validates = true}));
    EXPECT_TRUE(last(50.99, {.step = 9, .next_validates = true}));
    EXPECT_FALSE(last(31.01));
}

TEST_F(Limit, ForgetsASlowStep) {
    limit_.note_save(1);
    limit_.note_step(100);
    EXPECT_TRUE(last(100));
    for (int i = 0; i < 20; ++i)
        limit_.note_step(1);
    EXPECT_FALSE(last(100));
    EXPECT_TRUE(last(4));
}

} // namespace
} // namespace evener::runtime
