// SPDX-License-Identifier: Apache-2.0
// An exported model computes the same logits in a reader and a forward pass written for this test.
#include "device/plugin.hpp"
#include "job/print.hpp"
#include "runtime/model_exchange.hpp"
#include "runtime/parameters.hpp"
#include "runtime/plan_conversion.hpp"
#include "schedule/generators.hpp"
#include "schedule/lowering.hpp"
#include "support/paths.hpp"
#include "support/process.hpp"
#include "support/temporary_folder.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <tuple>

namespace evener::runtime {
namespace {

constexpr std::int64_t length = 7;

class FixedTokens final : public TokenSource {
  public:
    std::vector<std::int32_t> tokens;

    void read(std::int64_t, std::int64_t, std::span<std::int32_t> inputs,
              std::span<std::int32_t> targets) const override {
        std::copy(tokens.begin(), tokens.end(), inputs.begin());
        std::fill(targets.begin(), targets.end(), 0);
    }
    std::int64_t valid_targets(std::int64_t, std::int64_t) const override { return length; }
};

job::Job job_of(bool tied, bool query_bias, bool all_biases) {
    job::Job job;
    job.run.out = "run";
    job.run.name = "test";
    job.model.vocabulary = 19;
    job.model.hidden_size = 12;
    job.model.layers = 2;
    job.model.heads = 4;
    job.model.kv_heads = 2;
    job.model.head_size = 6;
    job.model.ffn_size = 14;
    job.model.sequence_length = length;
    job.model.rope_theta = 50;
    job.model.tied_embeddings = tied;
    job.model.attention_bias = query_bias;
    job.model.attention_output_bias = all_biases;
    job.model.mlp_bias = all_biases;
    job.model.init_std = 0.3; // so that attention and activation matter
    job.data.train = {"tokens.bin"};
    job.train.steps = 1;
    job.train.microbatch_size = 1;
    job.optimizer.decay_steps = 1;
    return job;
}

/// Random weights everywhere, biases and norms too, saved as step 0 of `out`.
class Subject {
  public:
    explicit Subject(job::Job const& job)
        : device_{device::open_device(device::Backend::reference, {1})}, cache_{*device_},
          transport_{MPI_COMM_WORLD}, model_{model_config(job.model)} {
        program::Plan plan;
        plan.groups.push_back({.ranks = {core::RankId{0}}, .shares = {1}, .shard_weights = {1}});
        plan.chunks.push_back({core::GroupId{0}, {0, model_.layer_count()}});
        std::int64_t const workspace = prepare_plan(cache_, plan, model_, core::RankId{0}, false);
        session_.emplace(SessionInput{
            .rank = core::RankId{0},
            .model = model_,
            .cache = cache_,
            .transport = transport_,
            .train = std::nullopt,
            .evaluate = schedule::lower(plan, model_,
                                        schedule::generate(plan, program::ProgramKind::evaluate),
                                        {program::ProgramKind::evaluate, {workspace}, 0}),
            .device_workspace_bytes = workspace,
            .arena = {},
            .adamw = false,
            .head = HeadOutput::logits});
        initialize_parameters(*session_, 5);
        for (BucketMemory const& memory : session_->memory())
            for (std::int64_t i = 0; i < memory.shard.size(); ++i)
                memory.master[i] += 0.1F * std::sin(static_cast<float>(3 * i + 1));
        session_->refresh_weights();
    }

    Session& session() { return *session_; }

    /// Of every position, for some tokens; as text.
    std::string logits() {
        FixedTokens source;
        for (std::int64_t i = 0; i < length; ++i)
            source.tokens.push_back(static_cast<std::int32_t>((5 * i + 3) % 19));
        std::string text = fmt::format("{}\n", fmt::join(source.tokens, " "));
        for (std::int64_t position = 0; position < length; ++position) {
            session_->set_position(position);
            session_->run_evaluate(source);
            text += fmt::format("{:.9g}\n", fmt::join(session_->logits(), " "));
        }
        return text;
    }

  private:
    std::unique_ptr<device::Device> device_;
    OperationCache cache_;
    comm::Transport transport_;
    model::Model model_;
    std::optional<Session> session_;
};

/// As step 0 of `out`.
std::string save(Session const& session, job::Job const& job, std::string const& out) {
    std::vector<std::string> const kinds = state_kinds(false);
    std::string const folder = checkpoints::begin(out, 0, 0);
    checkpoints::SliceWriter writer{folder, 0};
    auto slices = slices_of_rank(session.sets(), session.model(), session.rank(), kinds);
    auto const addresses = slice_addresses(session, kinds);
    for (std::size_t i = 0; i < slices.size(); ++i) {
        slices[i].data = addresses[i];
        writer.write(slices[i]);
    }
    checkpoints::Description description;
    description.creator = "test";
    description.state.optimizer = "sgd";
    description.model = session.model().description();
    description.kinds = kinds;
    description.tensors = tensors_of(session.model());
    description.job_toml = job::print_job(job);
    return checkpoints::commit(out, description, {writer.finish()}).folder;
}

/// Exported models of three kinds with the logits that Evener computes.
class ModelExchange : public testing::Test {
  protected:
    ModelExchange() {
        for (auto const& [tied, query_bias, all_biases] :
             {std::tuple{false, false, false}, std::tuple{true, true, false},
              std::tuple{false, true, true}}) {
            std::string const name = (folder_ / fmt::format("{}", folders_.size())).string();
            job::Job const job = job_of(tied, query_bias, all_biases);
            Subject subject{job};
            std::string const saved = save(subject.session(), job, name + "-run");
            std::filesystem::create_symlink(saved + "/model.h5", name + ".h5");
            checkpoints::CheckpointReader checkpoint{saved};
            export_model(checkpoint, name, {.most_file_bytes = 2000});
            io::write_file_atomically(name + ".logits", subject.logits());
            folders_.push_back(name);
        }
    }

    static std::string script(std::string const& name) {
        return (support::source_root() / "tests/runtime" / name).string();
    }

    /// The command, which compares logits, succeeds for all folders, and sees one wrong digit of the
    /// last. False where it cannot run.
    bool expect_same(std::vector<std::string> command) {
        command.insert(command.end(), folders_.begin(), folders_.end());
        support::ProcessResult const result = support::run_process(command);
        if (result.exit_code == 77)
            return false;
        EXPECT_EQ(result.exit_code, 0) << result.output << result.errors;
        std::string const right = io::read_file(folders_.back() + ".logits");
        std::string wrong = right;
        std::size_t const digit = wrong.find('.') + 3;
        wrong[digit] = wrong[digit] == '5' ? '6' : '5';
        io::write_file_atomically(folders_.back() + ".logits", wrong);
        EXPECT_EQ(support::run_process(command).exit_code, 1);
        io::write_file_atomically(folders_.back() + ".logits", right);
        return true;
    }

    support::TemporaryFolder folder_{"logits"};
    std::vector<std::string> folders_;
};

TEST_F(ModelExchange, ExportsWhatAnotherReaderComputesAlike) {
    EXPECT_TRUE(expect_same({"python3", script("llama_forward.py")}));
}

TEST_F(ModelExchange, ExportsWhatTorchComputesAlike) {
    // Debian's modules are those of the system's Python, whichever comes first in PATH.
    if (!expect_same({"/usr/bin/python3", script("llama_torch.py"), "torch"}))
        GTEST_SKIP() << "no torch or no h5py (Debian's python3-torch, python3-h5py)";
}

TEST_F(ModelExchange, ExportsWhatTransformersComputesAlike) {
    char const* const python = std::getenv("EVENER_TEST_PYTHON");
    if (!expect_same(
            {python == nullptr ? "python3" : python, script("llama_torch.py"), "transformers"}))
        GTEST_SKIP() << "no transformers (EVENER_TEST_PYTHON can name a Python that has it)";
}

} // namespace
} // namespace evener::runtime
