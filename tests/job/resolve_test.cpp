// SPDX-License-Identifier: Apache-2.0
// Presets and derived values.

#include "parse_support.hpp"
#include <gtest/gtest.h>

namespace evener::job {
namespace {

Model model_of(std::string const& table) {
    return parse_job_text("[model]\n" + table + "[data]\ntrain = \"a\"\n[train]\nsteps = 1\n", "j")
        .model;
}

TEST(JobResolve, PresetsHaveTheirShapes) {
    Model const tiny = model_of("preset = \"tiny\"\n");
    EXPECT_EQ(tiny.vocabulary, 256);
    Model const small = model_of("preset = \"124m\"\n");
    EXPECT_EQ(small.hidden_size, 768);
    EXPECT_EQ(small.layers, 12);
    EXPECT_EQ(small.heads, 12);
    EXPECT_EQ(small.kv_heads, 12);
    EXPECT_EQ(small.head_size, 64);
    EXPECT_TRUE(small.tied_embeddings);
    Model const medium = model_of("preset = \"1b\"\n");
    EXPECT_EQ(medium.kv_heads, 8);
    EXPECT_EQ(medium.head_size, 64);
    EXPECT_EQ(medium.rope_theta, 500000.0);
    Model const large = model_of("preset = \"7b\"\n");
    EXPECT_EQ(large.ffn_size, 11008);
    EXPECT_EQ(large.head_size, 128);
    EXPECT_FALSE(large.tied_embeddings);
}

/// Parameters of the decoder: embedding, head unless tied, norms, attention, feed-forward.
std::int64_t parameters(Model const& m) {
    std::int64_t const query = m.heads * m.head_size;
    std::int64_t const layer = 2 * m.hidden_size * (query + m.kv_heads * m.head_size) +
                               3 * m.hidden_size * m.ffn_size + 2 * m.hidden_size;
    return (m.tied_embeddings ? 1 : 2) * m.vocabulary * m.hidden_size + m.layers * layer +
           m.hidden_size;
}

TEST(JobResolve, PresetsHaveTheSizesTheirNamesSay) {
    EXPECT_NEAR(double(parameters(model_of("preset = \"124m\"\n"))), 124e6, 1e6);
    EXPECT_EQ(parameters(model_of("preset = \"1b\"\n")), 1'235'814'400); // Llama 3.2 1B
    EXPECT_EQ(parameters(model_of("preset = \"7b\"\n")), 6'738'415'616); // Llama 2 7B
}

TEST(JobResolve, KeysOverrideThePresetWhereverItStands) {
    Model const after = model_of("heads = 16\npreset = \"1b\"\nrope_theta = 7\n");
    EXPECT_EQ(after.heads, 16);
    EXPECT_EQ(after.head_size, 128);
    EXPECT_EQ(after.kv_heads, 8);
    EXPECT_EQ(after.rope_theta, 7.0);
    EXPECT_EQ(after, model_of("preset = \"1b\"\nheads = 16\nrope_theta = 7\n"));
    EXPECT_FALSE(model_of("preset = \"1b\"\ntied_embeddings = false\n").tied_embeddings);
    EXPECT_EQ(job_with({"model.preset=7b", "model.layers=2"}).model.layers, 2);
}

TEST(JobResolve, ZeroMeansThePresetsValue) {
    EXPECT_EQ(model_of("preset = \"1b\"\nlayers = 0\nkv_heads = 0\n"),
              model_of("preset = \"1b\"\n"));
}

TEST(JobResolve, WithoutAPresetHeadsAreDerived) {
    Model const model = model_of("vocabulary = 10\nhidden_size = 24\nlayers = 1\nheads = 3\n"
                                 "ffn_size = 5\nsequence_length = 7\n");
    EXPECT_EQ(model.kv_heads, 3);
    EXPECT_EQ(model.head_size, 8);
    EXPECT_EQ(layer_count(model), 4);
    EXPECT_EQ(model_of("vocabulary = 10\nhidden_size = 25\nlayers = 1\nheads = 3\nhead_size = 6\n"
                       "ffn_size = 5\nsequence_length = 7\n")
                  .head_size,
              6);
}

TEST(JobResolve, TheRunIsNamedAfterItsFile) {
    Job const job = parse_job_text(minimal_text, "some/folder/first.toml");
    EXPECT_EQ(job.run.name, "first");
    EXPECT_EQ(job.run.out, "runs/first");
    EXPECT_EQ(job_with({"run.name=b"}).run.out, "runs/b");
    EXPECT_EQ(job_with({"run.out=/x"}).run.out, "/x");
}

TEST(JobResolve, TrainingDefaultsFollowFromTheBatchAndTheSteps) {
    EXPECT_EQ(job_with({"train.batch_size=32"}).train.microbatch_size, 4);
    EXPECT_EQ(job_with({"train.batch_size=3"}).train.microbatch_size, 1);
    EXPECT_EQ(job_with({"train.steps=77"}).optimizer.decay_steps, 77);
    EXPECT_EQ(job_with({"optimizer.decay_steps=5"}).optimizer.decay_steps, 5);
}

TEST(JobResolve, AGroupComputesAsTheJobUnlessItSaysOtherwise) {
    Job const job =
        job_with({"precision.compute=bfloat16", "plan.groups=[{ranks=[0],layers=7},"
                                                "{ranks=[1],layers=7,compute=\"float32\"}]"});
    EXPECT_EQ(compute_of(job.precision, job.plan.groups[0]), Compute::bfloat16);
    EXPECT_EQ(compute_of(job.precision, job.plan.groups[1]), Compute::float32);
}

} // namespace
} // namespace evener::job
