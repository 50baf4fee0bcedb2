// SPDX-License-Identifier: Apache-2.0
#include "checkpoints/manifest.hpp"

#include "checkpoints/files.hpp"
#include "core/error.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace evener::checkpoints {

namespace {

/// HDF5's own limit of dimensions, and a size no disk has: sums of two stay in 64 bits.
constexpr std::size_t max_dimensions = 32;
constexpr std::int64_t max_bytes = std::int64_t{1} << 60;

bool is_name(std::string_view text, std::string_view others) {
    auto const plain = [&](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               others.find(c) != std::string_view::npos;
    };
    return !text.empty() && text.size() <= 255 && text.front() != '.' &&
           std::all_of(text.begin(), text.end(), plain);
}

bool is_data_file(std::string_view name) {
    if (!name.starts_with("data-") || !name.ends_with(".h5") || name.size() < 12)
        return false;
    std::string_view const digits = name.substr(5, name.size() - 8);
    return std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

class Validator {
  public:
    Validator(Manifest const& manifest, std::string const& path)
        : manifest_{manifest}, path_{path} {}

    void run() {
        check_state();
        check_kinds();
        check_tensors();
        check_files();
        for (SliceRecord const& slice : manifest_.slices)
            check_slice(slice);
        check_tiling();
        check_payloads();
    }

  private:
    template <class... Args>
    [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
        throw core::CheckpointError{path_, fmt::format(format, std::forward<Args>(args)...)};
    }

    void check_state() const {
        TrainingState const& state = manifest_.state;
        if (state.step < 0 || state.samples_consumed < 0 || state.tokens_consumed < 0 ||
            state.nonfinite_steps < 0)
            refuse("a counter of the state is negative");
        if (!std::isfinite(state.loss_scale))
            refuse("the loss scale is not finite");
    }

    void check_kinds() {
        for (std::string const& kind : manifest_.kinds) {
            if (!is_name(kind, "_"))
                refuse("'{}' cannot be the name of a kind", kind);
            if (!kinds_.insert(kind).second)
                refuse("kind '{}' is listed twice", kind);
        }
        if (kinds_.empty())
            refuse("it has no kinds");
    }

    void check_tensors() {
        if (manifest_.tensors.empty())
            refuse("it has no tensors");
        for (TensorInfo const& tensor : manifest_.tensors) {
            if (!is_name(tensor.name, "_.-"))
                refuse("'{}' cannot be the name of a tensor (use letters, digits, '_', '.', '-')",
                       tensor.name);
            if (tensor.shape.empty() || tensor.shape.size() > max_dimensions)
                refuse("tensor '{}' has {} dimensions, not 1 to {}", tensor.name,
                       tensor.shape.size(), max_dimensions);
            std::int64_t bytes = 4;
            for (std::int64_t const extent : tensor.shape)
                if (extent < 1 || __builtin_mul_overflow(bytes, extent, &bytes) ||
                    bytes > max_bytes)
                    refuse("tensor '{}' has an impossible shape [{}]", tensor.name,
                           fmt::join(tensor.shape, ", "));
            if (!tensors_.emplace(tensor.name, &tensor).second)
                refuse("tensor '{}' is listed twice", tensor.name);
        }
    }

    void check_files() {
        std::set<std::string> names;
        auto const check = [&](FileRecord const& file) {
            if (!is_name(file.name, "_.-") || file.name == manifest_name)
                refuse("'{}' cannot be the name of a file", file.name);
            if (file.bytes < 0 || file.bytes > max_bytes)
                refuse("file '{}' has an impossible size of {} bytes", file.name, file.bytes);
            if (!names.insert(file.name).second)
                refuse("file '{}' is listed twice", file.name);
        };
        for (FileRecord const& file : manifest_.data_files) {
            check(file);
            if (!is_data_file(file.name))
                refuse("data file '{}' is not named 'data-NNNN.h5'", file.name);
            files_.emplace(file.name, file.bytes);
        }
        std::for_each(manifest_.side_files.begin(), manifest_.side_files.end(), check);
    }

    void check_slice(SliceRecord const& slice) const {
        auto const tensor = tensors_.find(slice.name);
        if (tensor == tensors_.end())
            refuse("a slice belongs to '{}', which is no tensor of it", slice.name);
        if (!kinds_.contains(slice.kind))
            refuse("a slice of '{}' is of kind '{}', which is no kind of it", slice.name,
                   slice.kind);
        core::Range const rows = slice.rows;
        if (rows.begin < 0 || rows.end > tensor->second->rows() || rows.begin >= rows.end)
            refuse("a slice of '{}' has rows {} to {}, the tensor has {}", slice.name, rows.begin,
                   rows.end, tensor->second->rows());
        if (slice.bytes != rows.size() * tensor->second->row_bytes())
            refuse("'{}' has {} bytes, not the {} of its rows", slice.dataset(), slice.bytes,
                   rows.size() * tensor->second->row_bytes());
        auto const file = files_.find(slice.file);
        if (file == files_.end())
            refuse("'{}' is in '{}', which is no data file of it", slice.dataset(), slice.file);
        if (slice.offset < 0 || slice.offset > max_bytes ||
            slice.offset + slice.bytes > file->second)
            refuse("'{}' does not lie inside '{}'", slice.dataset(), slice.file);
    }

    /// Every tensor of every kind exactly once.
    void check_tiling() const {
        std::map<std::pair<std::string_view, std::string_view>, std::vector<core::Range>> rows;
        for (SliceRecord const& slice : manifest_.slices)
            rows[{slice.kind, slice.name}].push_back(slice.rows);
        for (std::string const& kind : manifest_.kinds)
            for (TensorInfo const& tensor : manifest_.tensors) {
                auto& ranges = rows[{kind, tensor.name}];
                std::sort(ranges.begin(), ranges.end(),
                          [](core::Range a, core::Range b) { return a.begin < b.begin; });
                std::int64_t next = 0;
                for (core::Range const range : ranges) {
                    if (range.begin > next)
                        refuse("rows {} to {} of {} '{}' are in no slice", next, range.begin, kind,
                               tensor.name);
                    if (range.begin < next)
                        refuse("row {} of {} '{}' is in two slices", range.begin, kind,
                               tensor.name);
                    next = range.end;
                }
                if (next != tensor.rows())
                    refuse("rows {} to {} of {} '{}' are in no slice", next, tensor.rows(), kind,
                           tensor.name);
            }
    }

    /// No byte of a file in two slices.
    void check_payloads() const {
        std::vector<SliceRecord const*> slices;
        for (SliceRecord const& slice : manifest_.slices)
            slices.push_back(&slice);
        std::sort(slices.begin(), slices.end(), [](auto const* a, auto const* b) {
            return std::tie(a->file, a->offset) < std::tie(b->file, b->offset);
        });
        for (std::size_t i = 1; i < slices.size(); ++i)
            if (slices[i]->file == slices[i - 1]->file &&
                slices[i]->offset < slices[i - 1]->offset + slices[i - 1]->bytes)
                refuse("'{}' and '{}' overlap in '{}'", slices[i - 1]->dataset(),
                       slices[i]->dataset(), slices[i]->file);
    }

    Manifest const& manifest_;
    std::string const& path_;
    std::set<std::string> kinds_;
    std::map<std::string, TensorInfo const*> tensors_;
    std::map<std::string, std::int64_t> files_; ///< data file -> bytes
};

} // namespace

void validate(Manifest const& manifest, std::string const& path) {
    Validator{manifest, path}.run();
}

Manifest read_manifest(std::string const& folder) {
    std::string const path = fmt::format("{}/{}", folder, manifest_name);
    if (files::size_of(folder))
        throw core::CheckpointError{folder, "it is a file (a checkpoint is a folder)"};
    if (!files::size_of(path))
        throw core::CheckpointError{
            folder,
            files::is_folder(folder)
                ? "it has no manifest.json (the save was interrupted, or it is no checkpoint)"
                : "there is no such folder"};
    return parse_manifest(files::read_text(path), path);
}

std::string misfit(FileRecord const& file, std::string const& folder) {
    auto const bytes = files::size_of(fmt::format("{}/{}", folder, file.name));
    if (!bytes)
        return fmt::format("{}: the file is missing", file.name);
    if (*bytes != file.bytes)
        return fmt::format("{}: the file has {} bytes, not {}", file.name, *bytes, file.bytes);
    return "";
}

std::vector<std::string> misfit_files(Manifest const& manifest, std::string const& folder) {
    std::vector<std::string> lines;
    for (FileRecord const& file : manifest.data_files)
        if (std::string line = misfit(file, folder); !line.empty())
            lines.push_back(std::move(line));
    return lines;
}

} // namespace evener::checkpoints
