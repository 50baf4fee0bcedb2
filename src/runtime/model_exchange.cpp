// SPDX-License-Identifier: Apache-2.0
#include "runtime/model_exchange.hpp"

#include "core/error.hpp"
#include "job/parse.hpp"
#include "job/print.hpp"
#include "runtime/parameters.hpp"
#include "runtime/plan_conversion.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

namespace evener::runtime {

namespace {

constexpr std::int64_t block_elements = std::int64_t{16} << 20;

/// Calls use(rows) for blocks of whole rows that cover the tensor.
template <class Use>
void for_each_block(checkpoints::TensorInfo const& tensor, Use const& use) {
    std::int64_t const rows = std::max<std::int64_t>(1, block_elements / tensor.row_elements());
    for (std::int64_t begin = 0; begin < tensor.rows(); begin += rows)
        use(core::Range{begin, std::min(begin + rows, tensor.rows())});
}

io::LlamaConfig config_of(job::Model const& model) {
    return {.vocabulary = model.vocabulary,
            .hidden_size = model.hidden_size,
            .layers = model.layers,
            .heads = model.heads,
            .kv_heads = model.kv_heads,
            .head_size = model.head_size,
            .ffn_size = model.ffn_size,
            .sequence_length = model.sequence_length,
            .rope_theta = model.rope_theta,
            .norm_epsilon = model.norm_epsilon,
            .init_std = model.init_std,
            .tied_embeddings = model.tied_embeddings,
            .attention_bias = model.attention_bias,
            .attention_output_bias = model.attention_output_bias,
            .mlp_bias = model.mlp_bias};
}

job::Model words_of(io::LlamaConfig const& config) {
    job::Model model;
    model.vocabulary = config.vocabulary;
    model.hidden_size = config.hidden_size;
    model.layers = config.layers;
    model.heads = config.heads;
    model.kv_heads = config.kv_heads;
    model.head_size = config.head_size;
    model.ffn_size = config.ffn_size;
    model.sequence_length = config.sequence_length;
    model.rope_theta = config.rope_theta;
    model.norm_epsilon = config.norm_epsilon;
    model.init_std = config.init_std;
    model.tied_embeddings = config.tied_embeddings;
    model.attention_bias = config.attention_bias;
    model.attention_output_bias = config.attention_output_bias;
    model.mlp_bias = config.mlp_bias;
    return model;
}

/// A job around the model: what is not known of its training gets examples to edit.
job::Job job_around(job::Model const& model, std::string const& run) {
    job::Job job;
    job.model = model;
    job.run.name = "imported";
    job.run.out = run;
    job.data.train = {"data/train.bin"};
    job.train.steps = 1000;
    job.train.microbatch_size = 1;
    job.optimizer.decay_steps = job.train.steps;
    job::check_job(job);
    return job;
}

class Import {
  public:
    Import(io::ModelFolder const& folder, std::string const& run, std::int64_t sequence_length)
        : folder_{folder}, run_{run}, job_{job_around(words(folder, sequence_length), run)},
          model_{model_config(job_.model)}, tensors_{tensors_of(model_)} {}

    Imported run(std::string const& creator) {
        check_tensors();
        Imported result;
        result.notes = leave_out();
        io::RunFolderLock const lock{run_};
        if (auto const old = checkpoints::find_newest_valid(run_, checkpoints::Depth::sizes); old)
            throw core::IoError{run_, fmt::format("holds the checkpoint '{}' already; name another "
                                                  "run folder",
                                                  old->folder)};
        std::string const folder = checkpoints::begin(
            run_, 0,
            checkpoints::payload_bytes(tensors_, {std::string{checkpoints::kind_parameters}}));
        try {
            checkpoints::WriterResult const written = write(folder);
            checkpoints::Description description;
            description.creator = creator;
            description.state.seed = job_.run.seed;
            description.state.optimizer = "none";
            description.model = model_.description();
            description.kinds = {std::string{checkpoints::kind_parameters}};
            description.tensors = tensors_;
            description.job_toml =
                "# Made by evener import: the model is that of the folder; data, steps and "
                "optimizer are examples.\n" +
                job::print_job(job_);
            result.checkpoint = checkpoints::commit(run_, description, {written});
        } catch (...) {
            checkpoints::abandon(run_, 0);
            throw;
        }
        return result;
    }

  private:
    static job::Model words(io::ModelFolder const& folder, std::int64_t sequence_length) {
        job::Model model = words_of(folder.config());
        if (sequence_length > 0)
            model.sequence_length = sequence_length;
        return model;
    }

    [[noreturn]] void fail(std::string const& what) const {
        throw core::IoError{folder_.folder(), what};
    }

    void check_tensors() const {
        for (checkpoints::TensorInfo const& tensor : tensors_) {
            io::StoredTensor const* const found = folder_.find(tensor.name);
            if (found == nullptr)
                fail(fmt::format("has no tensor '{}' (config.json asks for it); copy the model "
                                 "again",
                                 tensor.name));
            if (found->shape != tensor.shape)
                fail(fmt::format("tensor '{}' is [{}] (config.json asks for [{}]); the files do "
                                 "not belong together",
                                 tensor.name, fmt::join(found->shape, ", "),
                                 fmt::join(tensor.shape, ", ")));
        }
    }

    /// Notes on tensors that the model does not need. Throws for what it would compute otherwise.
    std::vector<std::string> leave_out() const {
        std::set<std::string> needed;
        for (checkpoints::TensorInfo const& tensor : tensors_)
            needed.insert(tensor.name);
        std::vector<std::string> notes;
        for (std::string const& name : folder_.names()) {
            if (needed.contains(name))
                continue;
            if (name.ends_with("rotary_emb.inv_freq"))
                notes.push_back(fmt::format("'{}' follows from the rope base", name));
            else if (name == "lm_head.weight" && is_embedding(name))
                notes.push_back(fmt::format("'{}' is the embedding, to which it is tied", name));
            else
                fail(fmt::format("has the tensor '{}' (no model with this config.json has it); "
                                 "evener would compute something else",
                                 name));
        }
        return notes;
    }

    bool is_embedding(std::string const& name) const {
        std::string const embedding = "model.embed_tokens.weight";
        io::StoredTensor const& head = *folder_.find(name);
        if (!job_.model.tied_embeddings || head.shape != folder_.find(embedding)->shape)
            return false;
        bool equal = true;
        checkpoints::TensorInfo const tensor{name, head.shape};
        for_each_block(tensor, [&](core::Range rows) {
            equal = equal && read(tensor, rows) == read({embedding, head.shape}, rows);
        });
        return equal;
    }

    std::vector<float> read(checkpoints::TensorInfo const& tensor, core::Range rows) const {
        std::int64_t const row = tensor.row_elements();
        std::vector<float> values(static_cast<std::size_t>(rows.size() * row));
        folder_.read(tensor.name, {rows.begin * row, rows.end * row}, values.data());
        return values;
    }

    checkpoints::WriterResult write(std::string const& folder) const {
        checkpoints::SliceWriter writer{folder, 0};
        for (checkpoints::TensorInfo const& tensor : tensors_)
            for_each_block(tensor, [&](core::Range rows) {
                std::vector<float> const values = read(tensor, rows);
                writer.write({std::string{checkpoints::kind_parameters}, tensor.name, tensor.shape,
                              rows, values.data()});
            });
        return writer.finish();
    }

    io::ModelFolder const& folder_;
    std::string run_;
    job::Job job_;
    model::Model model_;
    std::vector<checkpoints::TensorInfo> tensors_;
};

} // namespace

void export_model(checkpoints::CheckpointReader& checkpoint, std::string const& folder,
                  ExportOptions const& options) {
    job::Job const job =
        job::parse_job_text(checkpoint.text("job.toml"), checkpoint.folder() + "/job.toml");
    model::Model const model{model_config(job.model)};
    std::vector<checkpoints::TensorInfo> const tensors = tensors_of(model);
    std::vector<io::FolderTensor> listed;
    for (checkpoints::TensorInfo const& tensor : tensors)
        listed.push_back({tensor.name, tensor.shape});
    io::ModelFolderWriter writer{folder, config_of(job.model), options.type, listed,
                                 options.most_file_bytes};
    std::vector<float> values;
    for (checkpoints::TensorInfo const& tensor : tensors)
        for_each_block(tensor, [&](core::Range rows) {
            values.resize(static_cast<std::size_t>(rows.size() * tensor.row_elements()));
            checkpoint.read(checkpoints::kind_parameters, tensor.name, rows, values.data());
            writer.append(values);
        });
    writer.finish();
}

Imported import_model(io::ModelFolder const& folder, std::string const& run,
                      std::int64_t sequence_length, std::string const& creator) {
    return Import{folder, run, sequence_length}.run(creator);
}

} // namespace evener::runtime
