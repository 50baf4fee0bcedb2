// SPDX-License-Identifier: Apache-2.0
// A model on its way to a Hugging Face folder and back, by the program as a user runs it.
#include "io/hugging_face.hpp"
#include "support/paths.hpp"
#include "support/temporary_folder.hpp"

#include "runs.hpp"
#include <gtest/gtest.h>

#include <iterator>
#include <sstream>

namespace evener::system_test {
namespace {

model::ModelConfig config(bool tied, bool biases) {
    model::ModelConfig result;
    result.vocabulary = 96;
    result.hidden_size = 32;
    result.heads = 4;
    result.kv_heads = 2;
    result.head_size = 8;
    result.ffn_size = 48;
    result.sequence_length = 16;
    result.tied_embeddings = tied;
    result.attention_bias = biases;
    return result;
}

class Exchange : public testing::TestWithParam<std::pair<bool, bool>> {
  protected:
    support::ProcessResult evener(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), support::program("evener").string());
        return support::run_process(
            arguments, {.folder = folder_.path(), .environment = {"OMP_NUM_THREADS=1"}});
    }
    void expect_done(std::vector<std::string> const& arguments) {
        support::ProcessResult const result = evener(arguments);
        EXPECT_EQ(result.exit_code, 0) << result.errors;
    }
    /// A run of two steps in "run".
    job::Job trained() {
        write_tokens(folder_ / "tokens.bin", 96, 4000, 7);
        job::Job const job = small_job(config(GetParam().first, GetParam().second),
                                       folder_ / "tokens.bin", folder_ / "run", 2);
        support::ProcessResult const result = train(job);
        EXPECT_EQ(result.exit_code, 0) << result.errors;
        return job;
    }

    support::TemporaryFolder folder_{"exchange"};
};

TEST_P(Exchange, GivesBackEveryTensorToTheBit) {
    trained();
    for (char const* const file_gib : {"5", "0.001"}) {
        std::string const name = std::string{"f"} + file_gib;
        expect_done({"export", "run", "--output", name, "--file-gib", file_gib});
        expect_done({"import", name, "--output", name + "-run"});
        Tensors const before = tensors(step_folder(folder_ / "run", 2), "parameters");
        EXPECT_GT(before.size(), 10U);
        EXPECT_EQ(tensors(step_folder(folder_ / (name + "-run"), 0), "parameters"), before);
    }
    expect_done({"inspect", "f5-run", "--verify"});
    // What it computes is the same to the last digit printed.
    auto const loss = [&](std::string const& run) {
        std::string const line = evener({"evaluate", run, "--data", "tokens.bin"}).output;
        return line.substr(std::min(line.find("context"), line.size()));
    };
    EXPECT_EQ(loss("f5-run"), loss("run"));
    EXPECT_NE(loss("run").find("nats per token"), std::string::npos);
}

TEST_P(Exchange, RoundsToBfloat16OnceAndNoMore) {
    trained();
    expect_done({"export", "run", "--output", "a", "--type", "bfloat16"});
    expect_done({"import", "a", "--output", "a-run"});
    expect_done({"export", "a-run", "--output", "b", "--type", "bfloat16"});
    EXPECT_EQ(io::read_file(folder_ / "b/model.safetensors"),
              io::read_file(folder_ / "a/model.safetensors"));
    EXPECT_NE(tensors(step_folder(folder_ / "a-run", 0), "parameters"),
              tensors(step_folder(folder_ / "run", 2), "parameters"));
}

TEST_P(Exchange, StartsATrainingFromTheImportedWeights) {
    job::Job job = trained();
    expect_done({"export", "run", "--output", "a"});
    expect_done({"import", "a", "--output", "a-run"});
    std::string const first = (folder_ / "first").string();
    std::string const second = (folder_ / "second").string();
    for (auto const& [source, out] : {std::pair{"run", first}, std::pair{"a-run", second}}) {
        job.run.out = out;
        job.model.init_from = (folder_ / source).string();
        support::ProcessResult const result = train(job);
        EXPECT_EQ(result.exit_code, 0) << result.errors;
    }
    EXPECT_EQ(tensors(step_folder(second, 2), "parameters"),
              tensors(step_folder(first, 2), "parameters"));
}

TEST_P(Exchange, SamplesTokenIdsWhereTokensAreNotBytes) {
    trained();
    support::ProcessResult const result =
        evener({"sample", "run", "--prompt-tokens", "3,95", "--tokens", "4", "--temperature", "0"});
    EXPECT_EQ(result.exit_code, 0) << result.errors;
    std::istringstream words{result.output};
    std::vector<std::int64_t> const ids{std::istream_iterator<std::int64_t>{words}, {}};
    ASSERT_EQ(ids.size(), 6U) << result.output;
    EXPECT_EQ(ids[1], 95);
    EXPECT_LT(*std::max_element(ids.begin(), ids.end()), 96);
    support::ProcessResult const outside = evener({"sample", "run", "--prompt-tokens", "96"});
    EXPECT_EQ(outside.exit_code, 2);
    EXPECT_NE(outside.errors.find("tokens 0 to 95"), std::string::npos) << outside.errors;
    EXPECT_EQ(evener({"sample", "run"}).exit_code, 2);
}

TEST_P(Exchange, LosesNothingByNames) {
    trained();
    expect_done({"export", "run", "--output", "a"});
    expect_done({"import", "a", "--output", "a-run"});
    for (std::vector<std::string> const& again :
         {std::vector<std::string>{"export", "run", "--output", "a"},
          std::vector<std::string>{"import", "a", "--output", "run"}}) {
        support::ProcessResult const result = evener(again);
        EXPECT_EQ(result.exit_code, 5) << result.errors;
        EXPECT_NE(result.errors.find("already"), std::string::npos) << result.errors;
    }
}

INSTANTIATE_TEST_SUITE_P(Models, Exchange,
                         testing::Values(std::pair{false, false}, std::pair{true, true}));

} // namespace
} // namespace evener::system_test
