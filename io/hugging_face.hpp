// SPDX-License-Identifier: Apache-2.0
#pragma once

// A model folder as Hugging Face's transformers reads and writes it: config.json, and tensors in
// model.safetensors or in several files named by model.safetensors.index.json. Llama and Qwen2
// (which differs in the biases alone).

#include "io/safetensors.hpp"

#include <optional>

namespace evener::io {

struct LlamaConfig {
    std::int64_t vocabulary = 0;
    std::int64_t hidden_size = 0;
    std::int64_t layers = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_size = 0;
    std::int64_t ffn_size = 0;
    std::int64_t sequence_length = 0;
    double rope_theta = 10000;
    double norm_epsilon = 1e-6;
    double init_std = 0.02;
    bool tied_embeddings = false;
    bool attention_bias = false;
    bool attention_output_bias = false;
    bool mlp_bias = false;

    friend bool operator==(LlamaConfig const&, LlamaConfig const&) = default;
};

/// From the text of a config.json, with the rope base at the top (`rope_theta`, older releases) or
/// in `rope_parameters` (newer ones). Throws core::IoError that names `path` for what is missing,
/// not a number, or a model that Evener does not have (another model_type or activation, scaled
/// rope, sliding windows).
LlamaConfig parse_llama_config(std::string const& text, std::string const& path);

/// The text of a config.json that older and newer releases read: both forms of the rope base, and
/// of the type. Throws core::ConfigError where neither Llama nor Qwen2 has such biases.
std::string llama_config_text(LlamaConfig const& config, StoredType type);

/// A folder's tensors, in whatever files they are.
class ModelFolder {
  public:
    /// Throws core::IoError: no config.json, no tensors, a file that the index names and that is not
    /// there, a tensor in two files.
    explicit ModelFolder(std::string folder);

    std::string const& folder() const { return folder_; }
    LlamaConfig const& config() const { return config_; }
    std::vector<std::string> names() const; ///< ascending
    /// Null where there is none of that name.
    StoredTensor const* find(std::string const& name) const;
    /// As SafetensorsFile::read.
    void read(std::string const& name, core::Range elements, float* dst) const;

  private:
    struct Entry {
        std::size_t file = 0;
        StoredTensor tensor;
    };

    std::string folder_;
    LlamaConfig config_;
    std::vector<std::unique_ptr<SafetensorsFile>> files_;
    std::map<std::string, Entry> entries_;
};

struct FolderTensor {
    std::string name;
    std::vector<std::int64_t> shape;
};

/// Writes such a folder; config.json comes last, so that a folder with one is whole.
class ModelFolderWriter {
  public:
    /// Cuts the tensors into files of at most `most_file_bytes`, a tensor to a file at least. Makes
    /// the folder. Throws core::IoError where it holds a model already.
    ModelFolderWriter(std::string folder, LlamaConfig const& config, StoredType type,
                      std::vector<FolderTensor> const& tensors, std::int64_t most_file_bytes);

    /// The next values, in the order of the tensors.
    void append(std::span<float const> values);
    void finish();

  private:
    struct File {
        std::string name;
        std::vector<std::pair<std::string, std::vector<std::int64_t>>> tensors;
        std::int64_t elements = 0;
    };

    void open_next();
    std::string index_text() const;

    std::string folder_;
    std::string config_text_;
    StoredType type_;
    std::vector<File> files_;
    std::size_t next_file_ = 0;
    std::int64_t left_ = 0; ///< elements of the open file
    std::optional<SafetensorsWriter> writer_;
};

} // namespace evener::io
