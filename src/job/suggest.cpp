// SPDX-License-Identifier: Apache-2.0
#include "job/suggest.hpp"

#include "job/schema.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace evener::job {

namespace {

/// What other programs call a key, separated by blanks.
struct Aliases {
    std::string_view key;
    std::string_view names;
};

// clang-format off
constexpr Aliases aliases[] = {
    {"run.name", "run_name experiment"},
    {"run.out", "output output_dir out_dir"},
    {"run.seed", "random_seed"},
    {"run.devices", "device"},
    {"run.threads", "num_threads"},
    {"run.nccl", "collectives"},
    {"run.cuda_aware_mpi", "cuda_aware gpu_direct"},
    {"model.preset", "name size"},
    {"model.vocabulary", "vocab vocab_size vocabulary_size"},
    {"model.hidden_size", "width dim d_model n_embd"},
    {"model.layers", "num_hidden_layers n_layer n_layers num_layers depth"},
    {"model.heads", "num_attention_heads n_head n_heads num_heads"},
    {"model.kv_heads", "num_key_value_heads n_kv_heads num_kv_heads"},
    {"model.head_size", "head_dim"},
    {"model.ffn_size", "intermediate_size ffn_hidden_size feed_forward_size mlp_size"},
    {"model.sequence_length",
     "seq_len seq_length context_length block_size max_position_embeddings context"},
    {"model.rope_theta", "rope_base theta"},
    {"model.norm_epsilon", "rms_norm_eps norm_eps layer_norm_epsilon"},
    {"model.tied_embeddings", "tie_word_embeddings tie_embeddings"},
    {"model.attention_bias", "qkv_bias"},
    {"model.init_std", "initializer_range"},
    {"model.init_from", "load pretrained"},
    {"data.train", "train_files train_data files path"},
    {"data.validation", "val valid eval validation_files val_data"},
    {"data.format", "dtype type"},
    {"data.ignore_token", "ignore_index pad_token pad_token_id"},
    {"train.steps", "max_steps num_steps iterations max_iters train_iters total_steps"},
    {"train.batch_size", "global_batch_size batch"},
    {"train.microbatch_size", "micro_batch_size microbatch micro_batch"},
    {"train.validate_every", "eval_interval eval_every val_every eval_steps"},
    {"train.validation_batches", "eval_iters eval_batches"},
    {"optimizer.kind", "name type optimizer"},
    {"optimizer.learning_rate", "lr max_lr"},
    {"optimizer.min_learning_rate", "min_lr final_lr"},
    {"optimizer.warmup_steps", "warmup warmup_iters"},
    {"optimizer.schedule", "decay lr_schedule lr_scheduler lr_decay_style"},
    {"optimizer.decay_steps", "lr_decay_iters"},
    {"optimizer.beta1", "adam_beta1 betas"},
    {"optimizer.beta2", "adam_beta2"},
    {"optimizer.epsilon", "eps adam_eps"},
    {"optimizer.weight_decay", "wd"},
    {"optimizer.clip_norm", "grad_clip clip clip_grad max_grad_norm max_norm"},
    {"precision.compute", "dtype precision"},
    {"plan.schedule", "pipeline_schedule"},
    {"plan.groups", "stages group"},
    {"plan.chunks", "stages chunk"},
    {"plan.chunks_per_group", "virtual_stages virtual_pipeline interleave ministages"},
    {"plan.schedule_file", "schedule_csv"},
    {"plan.recompute", "activation_checkpointing gradient_checkpointing recompute_activations remat"},
    {"plan.interleave_updates", "interleaved_updates"},
    {"plan.offload", "cpu_offload offloading"},
    {"plan.offload.parameters", "weights params param offload_param"},
    {"plan.offload.optimizer", "optim moments offload_optimizer"},
    {"plan.offload.activations", "acts"},
    {"checkpoint.every", "save_every save_interval interval"},
    {"checkpoint.resume", "load restore"},
    {"checkpoint.verify_on_load", "verify"},
    {"log.step_every", "log_interval log_every every"},
    {"log.progress", "progress_bar"},
    {"plan.groups.ranks", "rank"},
    {"plan.groups.shares", "share weights"},
    {"plan.groups.shard_weights", "shards"},
    {"plan.groups.compute", "dtype precision"},
};
// clang-format on

bool has_word(std::string_view words, std::string_view word) {
    for (std::size_t begin = 0; begin < words.size();) {
        std::size_t const end = std::min(words.find(' ', begin), words.size());
        if (words.substr(begin, end - begin) == word)
            return true;
        begin = end + 1;
    }
    return false;
}

struct KeyNames {
    std::string_view table;
    std::vector<std::string_view> keys;
};

std::vector<KeyNames> all_names() {
    std::vector<KeyNames> result;
    for (Table const& table : tables()) {
        KeyNames& names = result.emplace_back(KeyNames{table.name, {}});
        for (Key<Job> const& key : table.keys)
            names.keys.push_back(key.name);
    }
    KeyNames& offload = result.emplace_back(KeyNames{"plan.offload", {}});
    for (Key<Offload> const& key : offload_keys())
        offload.keys.push_back(key.name);
    KeyNames& groups = result.emplace_back(KeyNames{"plan.groups", {}});
    for (Key<Group> const& key : group_keys())
        groups.keys.push_back(key.name);
    KeyNames& chunks = result.emplace_back(KeyNames{"plan.chunks", {}});
    for (Key<Chunk> const& key : chunk_keys())
        chunks.keys.push_back(key.name);
    return result;
}

std::string_view table_of(std::string_view key) {
    return key.substr(0, key.rfind('.'));
}

std::size_t allowed_distance(std::string_view name) {
    return name.size() <= 3 ? 1 : name.size() <= 6 ? 2 : 3;
}

} // namespace

std::size_t edit_distance(std::string_view a, std::string_view b) {
    // Three rows of the table suffice: row i needs i - 1, and i - 2 for a swap of neighbours.
    std::vector<std::size_t> before(b.size() + 1), previous(b.size() + 1), row(b.size() + 1);
    for (std::size_t j = 0; j <= b.size(); ++j)
        row[j] = j;
    for (std::size_t i = 1; i <= a.size(); ++i) {
        before.swap(previous);
        previous.swap(row);
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            std::size_t const replace = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
            row[j] = std::min({previous[j] + 1, row[j - 1] + 1, replace});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before[j - 2] + 1);
        }
    }
    return row[b.size()];
}

std::vector<std::string_view> nearest(std::string_view name,
                                      std::vector<std::string_view> const& candidates) {
    std::vector<std::string_view> result;
    std::size_t best = allowed_distance(name);
    if (name.size() > 64) // no key is that long, and the distance costs the product of the lengths
        return result;
    for (std::string_view const candidate : candidates) {
        std::size_t const distance = edit_distance(name, candidate);
        if (distance > best || distance >= candidate.size())
            continue;
        if (distance < best)
            result.clear();
        best = distance;
        result.push_back(candidate);
    }
    return result;
}

std::vector<std::string> suggest_keys(std::string_view name, std::string_view table) {
    std::vector<std::string> here, elsewhere, near_elsewhere;
    for (Aliases const& alias : aliases)
        if (has_word(alias.names, name))
            (table_of(alias.key) == table ? here : elsewhere).emplace_back(alias.key);
    for (KeyNames const& names : all_names()) {
        bool const same_table = names.table == table;
        for (std::string_view const key : nearest(name, names.keys)) {
            std::string full = fmt::format("{}.{}", names.table, key);
            if (same_table)
                here.push_back(std::move(full));
            else if (key == name)
                elsewhere.push_back(std::move(full));
            else
                near_elsewhere.push_back(std::move(full));
        }
    }
    if (!here.empty())
        return here;
    return elsewhere.empty() ? near_elsewhere : elsewhere;
}

std::string did_you_mean(std::vector<std::string> const& names, std::string_view table) {
    std::string text;
    std::size_t const count = std::min<std::size_t>(names.size(), 4);
    for (std::size_t i = 0; i < count; ++i) {
        std::string_view name = names[i];
        if (!table.empty() && table_of(name) == table)
            name.remove_prefix(table.size() + 1);
        text += fmt::format("{}'{}'", i == 0 ? "" : i + 1 == count ? " or " : ", ", name);
    }
    return text.empty() ? "" : fmt::format("; did you mean {}?", text);
}

} // namespace evener::job
