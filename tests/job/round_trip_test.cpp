// SPDX-License-Identifier: Apache-2.0
// A printed job parses back to the equal job.

#include "job/print.hpp"
#include "support/sizes.hpp"

#include "parse_support.hpp"
#include "random_job.hpp"
#include <gtest/gtest.h>

#include <set>

namespace evener::job {
namespace {

TEST(JobRoundTrip, RandomJobsParseBackEqual) {
    std::size_t grouped = 0;
    std::set<std::string> texts;
    for (std::uint64_t const seed : support::seeds("JobRoundTrip", 5000)) {
        Job const job = random_job(seed);
        std::string const text = print_job(job);
        ASSERT_NO_THROW(check_job(job)) << text;
        ASSERT_EQ(parse_job_text(text, "other.toml"), job) << "seed " << seed << "\n" << text;
        ASSERT_EQ(print_job(parse_job_text(text, "other.toml")), text);
        ASSERT_EQ(parse_plan_text(print_plan(job.plan), "plan.toml"), job.plan) << "seed " << seed;
        texts.insert(text);
        grouped += job.plan.groups.size() > 1 ? 1 : 0;
    }
    EXPECT_GT(texts.size(), 1u);
    if (texts.size() > 50) {
        EXPECT_GT(grouped, texts.size() / 4);
    }
}

TEST(JobRoundTrip, EqualityLooksAtEveryTable) {
    Job const job = parse_job_text(minimal_text, "job.toml");
    for (std::string const change :
         {"run.seed=2", "model.init_std=1", "data.shuffle=false", "train.batch_size=33",
          "optimizer.beta1=0.5", "precision.compute=float32", "plan.replan=true",
          "plan.offload.optimizer=true", "plan.recompute=true", "checkpoint.keep=9",
          "log.step_every=2"})
        EXPECT_NE(job_with({change}), job) << change;
}

TEST(JobRoundTrip, AResolvedJobIsComplete) {
    Job const job = parse_job_text(minimal_text, "job.toml");
    Job moved = parse_job_text(print_job(job), "elsewhere/other.toml");
    EXPECT_EQ(moved, job); // the name too
}

} // namespace
} // namespace evener::job
