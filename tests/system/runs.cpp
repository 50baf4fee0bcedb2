// SPDX-License-Identifier: Apache-2.0
#include "system/runs.hpp"

#include "checkpoints/reader.hpp"
#include "checkpoints/store.hpp"
#include "io/files.hpp"
#include "io/token_writer.hpp"
#include "job/print.hpp"
#include "runtime/plan_conversion.hpp"
#include "support/paths.hpp"
#include "support/random_plan.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>

namespace evener::system_test {

void write_tokens(std::filesystem::path const& file, std::int64_t vocabulary, std::int64_t tokens,
                  std::uint64_t seed) {
    support::Random random{seed};
    std::vector<std::int32_t> values;
    for (std::int64_t i = 0; i < tokens; ++i)
        values.push_back(static_cast<std::int32_t>(random.integer(0, vocabulary - 1)));
    io::TokenWriter writer{file.string(), vocabulary};
    writer.append(values);
    writer.close();
}

model::ModelConfig tiny_config() {
    model::ModelConfig config;
    config.vocabulary = 19;
    config.hidden_size = 16;
    config.decoder_layers = 2;
    config.heads = config.kv_heads = 2;
    config.head_size = 8;
    config.ffn_size = 24;
    config.sequence_length = 8;
    return config;
}

job::Job small_job(model::ModelConfig const& config, std::filesystem::path const& tokens,
                   std::filesystem::path const& out, std::int64_t steps) {
    job::Job job;
    job.run.name = "test";
    job.run.out = out.string();
    job.run.threads = 1;
    job.model.vocabulary = config.vocabulary;
    job.model.hidden_size = config.hidden_size;
    job.model.layers = config.decoder_layers;
    job.model.heads = config.heads;
    job.model.kv_heads = config.kv_heads;
    job.model.head_size = config.head_size;
    job.model.ffn_size = config.ffn_size;
    job.model.sequence_length = config.sequence_length;
    job.model.tied_embeddings = config.tied_embeddings;
    job.model.attention_bias = config.attention_bias;
    job.model.attention_output_bias = config.attention_output_bias;
    job.model.mlp_bias = config.mlp_bias;
    job.model.init_std = 0.1;
    job.data.train = {tokens.string()};
    job.train.steps = steps;
    job.optimizer.kind = job::OptimizerKind::sgd;
    job.optimizer.learning_rate = 0.2;
    job.optimizer.schedule = job::Decay::constant;
    job.optimizer.weight_decay = 0.01;
    job.precision.compute = job::Compute::float32;
    job.precision.boundary = job::Compute::float32;
    job.log.progress = job::Progress::never;
    return job;
}

job::Group even_group(std::vector<std::int32_t> const& ranks, std::int64_t layers) {
    job::Group group;
    for (std::int32_t const rank : ranks)
        group.ranks.emplace_back(rank);
    group.layers = layers;
    group.shares.assign(ranks.size(), 1);
    group.shard_weights.assign(ranks.size(), 1);
    return group;
}

job::Job with_plan(job::Job job, program::Plan const& plan) {
    job.train.batch_size = plan.batch_size;
    job.train.microbatch_size = plan.microbatch_size;
    job.plan = runtime::plan_words(plan, job.plan);
    return job;
}

namespace {

std::vector<std::string> preloaded(char const* library) {
    return {fmt::format("LD_PRELOAD={}", (support::build_root() / "lib" / library).string())};
}

} // namespace

std::vector<std::string> mpi_shim() {
    return preloaded("libevener_mpi_shim.so");
}

std::vector<std::string> without_cuda() {
    return preloaded("libevener_hide_cuda.so");
}

std::vector<std::string> train_command(job::Job const& job,
                                       std::vector<std::string> const& settings) {
    std::filesystem::create_directories(std::filesystem::path{job.run.out}.parent_path());
    std::string const file = job.run.out + ".toml";
    io::write_file_atomically(file, job::print_job(job));
    std::vector<std::string> command{support::program("evener").string(), "train", file};
    for (std::string const& setting : settings) {
        command.push_back("--set");
        command.push_back(setting);
    }
    return command;
}

support::ProcessResult train(job::Job const& job, TrainOptions const& options) {
    std::vector<std::string> command = train_command(job, options.settings);
    command[1] = options.command;
    if (options.ranks > 1)
        command = support::under_mpirun(options.ranks, command);
    support::ProcessOptions process;
    process.timeout = options.timeout;
    process.environment = {"OMP_NUM_THREADS=1"};
    if (options.delay_seed != 0) {
        process.environment.push_back("EVENER_SYNCHRONOUS_SENDS=1");
        process.environment.push_back(
            fmt::format("EVENER_RANDOM_DELAYS={}:400", options.delay_seed));
    }
    process.environment.insert(process.environment.end(), options.environment.begin(),
                               options.environment.end());
    return support::run_process(command, process);
}

std::map<std::int64_t, double> metrics(std::filesystem::path const& out, std::string const& key) {
    std::map<std::int64_t, double> values;
    std::ifstream file{out / "metrics.jsonl"};
    for (std::string line; std::getline(file, line);) {
        auto const record = nlohmann::json::parse(line);
        auto const& value = record.at(key);
        values[record.at("step").get<std::int64_t>()] =
            value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
    }
    return values;
}

Tensors tensors(std::filesystem::path const& checkpoint, std::string const& kind) {
    checkpoints::CheckpointReader reader{checkpoint.string()};
    Tensors result;
    for (checkpoints::TensorInfo const& info : reader.manifest().tensors) {
        auto& values = result[info.name];
        values.resize(static_cast<std::size_t>(info.rows() * info.row_elements()));
        reader.read(kind, info.name, {0, info.rows()}, values.data());
    }
    return result;
}

bool same_checkpoint(std::filesystem::path const& a, std::filesystem::path const& b) {
    checkpoints::CheckpointReader const reader_a{a.string()};
    checkpoints::CheckpointReader const reader_b{b.string()};
    if (reader_a.manifest().state != reader_b.manifest().state ||
        reader_a.manifest().kinds != reader_b.manifest().kinds)
        return false;
    for (std::string const& kind : reader_a.manifest().kinds) {
        Tensors const of_a = tensors(a, kind);
        Tensors const of_b = tensors(b, kind);
        if (of_a.size() != of_b.size())
            return false;
        for (auto const& [name, values] : of_a) {
            auto const found = of_b.find(name);
            if (found == of_b.end() || found->second.size() != values.size() ||
                std::memcmp(found->second.data(), values.data(), 4 * values.size()) != 0)
                return false;
        }
    }
    return true;
}

std::filesystem::path step_folder(std::filesystem::path const& out, std::int64_t step) {
    return out / checkpoints::step_folder_name(step);
}

} // namespace evener::system_test
