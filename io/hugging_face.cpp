// SPDX-License-Identifier: Apache-2.0
#include "io/hugging_face.hpp"

#include "core/error.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>

namespace evener::io {

namespace {

constexpr char const* config_name = "config.json";
constexpr char const* index_name = "model.safetensors.index.json";
constexpr char const* single_name = "model.safetensors";

std::string path_in(std::string const& folder, std::string const& name) {
    return (std::filesystem::path{folder} / name).string();
}

/// The files that hold the folder's tensors.
std::vector<std::string> file_names(std::string const& folder) {
    namespace fs = std::filesystem;
    std::error_code ignored; // what cannot be looked at is not there
    if (!fs::exists(path_in(folder, index_name), ignored)) {
        if (!fs::exists(path_in(folder, single_name), ignored))
            throw core::IoError{folder, fmt::format("no model here (neither '{}' nor '{}'); check "
                                                    "the path",
                                                    single_name, index_name)};
        return {single_name};
    }
    std::string const path = path_in(folder, index_name);
    auto const index = nlohmann::json::parse(read_file(path), nullptr, false);
    std::vector<std::string> names;
    if (index.is_object() && index.contains("weight_map") && index["weight_map"].is_object())
        for (auto const& [tensor, file] : index["weight_map"].items())
            if (file.is_string())
                names.push_back(file.get<std::string>());
    if (names.empty())
        throw core::IoError{path, "no index of tensors (a JSON object with 'weight_map'); download "
                                  "the model again"};
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    for (std::string const& name : names)
        if (name.empty() || fs::path{name}.filename() != name)
            throw core::IoError{path, fmt::format("names the file '{}' (it must lie in the same "
                                                  "folder); download the model again",
                                                  name)};
    return names;
}

} // namespace

ModelFolder::ModelFolder(std::string folder) : folder_{std::move(folder)} {
    std::string const config = path_in(folder_, config_name);
    config_ = parse_llama_config(read_file(config), config);
    for (std::string const& name : file_names(folder_)) {
        files_.push_back(std::make_unique<SafetensorsFile>(path_in(folder_, name)));
        for (StoredTensor const& tensor : files_.back()->tensors())
            if (!entries_.try_emplace(tensor.name, Entry{files_.size() - 1, tensor}).second)
                throw core::IoError{files_.back()->path(),
                                    fmt::format("holds tensor '{}', as another file does; download "
                                                "the model again",
                                                tensor.name)};
    }
}

std::vector<std::string> ModelFolder::names() const {
    std::vector<std::string> result;
    for (auto const& [name, entry] : entries_)
        result.push_back(name);
    return result;
}

StoredTensor const* ModelFolder::find(std::string const& name) const {
    auto const found = entries_.find(name);
    return found == entries_.end() ? nullptr : &found->second.tensor;
}

void ModelFolder::read(std::string const& name, core::Range elements, float* dst) const {
    Entry const& entry = entries_.at(name);
    files_[entry.file]->read(entry.tensor, elements, dst);
}

ModelFolderWriter::ModelFolderWriter(std::string folder, LlamaConfig const& config, StoredType type,
                                     std::vector<FolderTensor> const& tensors,
                                     std::int64_t most_file_bytes)
    : folder_{std::move(folder)}, config_text_{llama_config_text(config, type)}, type_{type} {
    std::error_code ignored;
    for (char const* const name : {config_name, index_name, single_name})
        if (std::filesystem::exists(path_in(folder_, name), ignored))
            throw core::IoError{folder_, fmt::format("holds a model or a part of one already "
                                                     "('{}'); name another folder or remove it",
                                                     name)};
    create_folder(folder_);
    std::int64_t const most = most_file_bytes / (type == StoredType::float32 ? 4 : 2);
    for (FolderTensor const& tensor : tensors) {
        std::int64_t elements = 1;
        for (std::int64_t const extent : tensor.shape)
            elements *= extent;
        if (files_.empty() || files_.back().elements + elements > most)
            files_.emplace_back();
        files_.back().tensors.push_back({tensor.name, tensor.shape});
        files_.back().elements += elements;
    }
    for (std::size_t i = 0; i < files_.size(); ++i)
        files_[i].name = files_.size() == 1 ? std::string{single_name}
                                            : fmt::format("model-{:05}-of-{:05}.safetensors", i + 1,
                                                          files_.size());
}

void ModelFolderWriter::open_next() {
    if (writer_)
        writer_->finish();
    File const& file = files_.at(next_file_++);
    writer_.emplace(path_in(folder_, file.name), type_, file.tensors,
                    std::map<std::string, std::string>{{"format", "pt"}});
    left_ = file.elements;
}

void ModelFolderWriter::append(std::span<float const> values) {
    while (!values.empty()) {
        if (left_ == 0)
            open_next();
        auto const count = std::min<std::int64_t>(left_, std::ssize(values));
        writer_->append(values.first(static_cast<std::size_t>(count)));
        values = values.subspan(static_cast<std::size_t>(count));
        left_ -= count;
    }
}

/// Which tensor lies in which file.
std::string ModelFolderWriter::index_text() const {
    nlohmann::ordered_json index;
    std::int64_t elements = 0;
    for (File const& file : files_)
        elements += file.elements;
    index["metadata"]["total_size"] = elements * (type_ == StoredType::float32 ? 4 : 2);
    for (File const& file : files_)
        for (auto const& [name, shape] : file.tensors)
            index["weight_map"][name] = file.name;
    return index.dump(2) + "\n";
}

void ModelFolderWriter::finish() {
    EVENER_EXPECT(left_ == 0 && next_file_ == files_.size() && writer_.has_value());
    writer_->finish();
    if (files_.size() > 1)
        write_file_atomically(path_in(folder_, index_name), index_text());
    write_file_atomically(path_in(folder_, config_name), config_text_);
}

} // namespace evener::io
